package digest

import (
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{
		"marks": &[]Mark{}, "wants": &[]Range{}, "parcel": &parcel{}, "envelope": &Envelope{}, "signed": &signed{},
	}})
}
