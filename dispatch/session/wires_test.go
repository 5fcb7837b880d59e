package session_test

import (
	"testing"

	"covey/dispatch/session"
	"covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: session.Protocol, Frames: map[string]any{"up": &session.Up{}, "down": &session.Down{}}})
}
