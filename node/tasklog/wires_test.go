package tasklog

import (
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: LogsProtocol, Frames: map[string]any{"request": &Request{}, "answer": &answer{}}})
}
