package digest

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{
		"marks": &[]Mark{}, "wants": &[]Range{}, "parcel": &parcel{}, "envelope": &Envelope{}, "signed": &signed{},
	}})
}

func TestWhatIsSignedIsAsEveryVersionHasIt(t *testing.T) {
	data, err := Envelope{Author: "peer", Incarnation: "inc", Number: 1, Body: []byte{2}, Sig: []byte{3}}.toSign()
	if err != nil {
		t.Fatal(err)
	}
	golden.Freeze(t, "signed envelope 1", fmt.Sprintf("%x", data))
}
