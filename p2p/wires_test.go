package p2p

import (
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(
		t, "wires.txt",
		golden.Wire{Name: HelloProtocol, Frames: map[string]any{"hello": &helloFrame{}}},
		golden.Wire{Name: reachProtocol, Frames: map[string]any{"reach": &reachQuestion{}, "reach answer": &reachAnswer{}}},
	)
}
