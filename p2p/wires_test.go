package p2p

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/starts"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(
		t, "wires.txt",
		golden.Wire{Name: HelloProtocol, Frames: map[string]any{"hello": &helloFrame{}}},
		golden.Wire{Name: reachProtocol, Frames: map[string]any{"reach": &reachQuestion{}, "reach answer": &reachAnswer{}}},
	)
}

func TestAStrangerIsToldNothingByAHello(t *testing.T) {
	h := &Host{cfg: Config{Version: strings.Repeat("1", maxVersion+1), Start: starts.Start{Number: 7}}}
	if got := h.own(false); got != (helloFrame{}) {
		t.Errorf("a stranger is told %+v", got)
	}
	if got := h.own(true); !got.Admitted || len(got.Version) != maxVersion || got.Start != h.cfg.Start {
		t.Errorf("a member is told %+v", got)
	}
}
