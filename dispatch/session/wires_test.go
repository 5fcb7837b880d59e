package session_test

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: session.Protocol, Frames: map[string]any{"up": &session.Up{}, "down": &session.Down{}}})
}
