package calls

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"signed": &Signed{}, "call": &Call{}, "reply": &Reply{}}})
}

func TestWhatACallSignsIsAsEveryVersionHasIt(t *testing.T) {
	golden.Freeze(t, "signed call 2", fmt.Sprintf("%x", signedPart("cluster", []byte("body"))))
}
