package taskstate_test

import (
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	. "github.com/coveyproject/covey/taskstate"
)

func TestBatchesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: "/covey/status/1", Frames: map[string]any{"batch": &Batch{}}})
}
