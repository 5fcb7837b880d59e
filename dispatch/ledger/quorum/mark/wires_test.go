package mark

import (
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestMarksAreAsTheyAlwaysWere(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: "ledger/marks", Frames: map[string]any{"marks": &[]Signed{}, "mark": &Mark{}}})
}
