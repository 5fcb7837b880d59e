package copies

import (
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	t.Parallel()
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"start": &ask{}, "start answer": &answer{}}})
}
