package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"covey/internal/golden"
	"covey/p2p/wire"
)

// shapes are all values that a Node keeps on a disk or sends, beyond those of the ledger itself.
func shapes() map[string]any {
	out := map[string]any{
		"memo": &memo{}, "raft hello": &raftHello{}, "follow hello": &followHello{}, "follow frame": &followFrame{},
		"voter ask": &voterAsk{}, "voter answer": &voterAnswer{},
	}
	for _, v := range out {
		golden.Fill(reflect.ValueOf(v).Elem(), 1, nil)
	}
	return out
}

// As in the ledger: numbers of fields are never changed nor used again.
func TestEveryShapeKeepsItsNumbers(t *testing.T) {
	var got bytes.Buffer
	all := shapes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		said, err := cbor.Diagnose(encoded(t, all[name]))
		if err != nil {
			t.Fatal(name, err)
		}
		fmt.Fprintf(&got, "%s: %s\n", name, strings.NewReplacer("}, {", "},\n  {").Replace(said))
	}
	if err := golden.Check("testdata/shapes.txt", got.String()); err != nil {
		t.Fatal(err)
	}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := wire.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryShapeIsReadAsItWasWritten(t *testing.T) {
	for name, v := range shapes() {
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := wire.Unmarshal(encoded(t, v), back); err != nil || !bytes.Equal(encoded(t, back), encoded(t, v)) {
			t.Errorf("%s: %v\n is %+v\nwas %+v", name, err, back, v)
		}
	}
}

// A field this program does not know is said by a newer one, and may mean that nothing else is as
// it seems: it is never passed over.
func TestAFieldFromTheFutureIsRefusedAndNotPassedOver(t *testing.T) {
	for name, v := range shapes() {
		var fields map[int]cbor.RawMessage
		if err := cbor.Unmarshal(encoded(t, v), &fields); err != nil {
			t.Fatal(name, err)
		}
		fields[99] = cbor.RawMessage{0x01}
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := wire.Unmarshal(encoded(t, fields), back); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s with another field: %v", name, err)
		}
	}
}
