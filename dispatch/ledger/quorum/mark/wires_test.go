package mark

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
)

func TestMarksAreAsTheyAlwaysWere(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: "ledger/marks", Frames: map[string]any{"marks": &[]Signed{}, "mark": &Mark{}}})
}

func TestWhatIsSignedIsAsEveryVersionHasIt(t *testing.T) {
	var m Mark
	golden.Fill(reflect.ValueOf(&m).Elem(), 1, nil)
	_, err := Sign(m, func(data []byte) ([]byte, error) {
		golden.Freeze(t, "signed mark 1", fmt.Sprintf("%x", data))
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}
