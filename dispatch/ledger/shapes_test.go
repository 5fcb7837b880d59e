package ledger

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
	"covey/taskstate"
)

// fill gives every field of a value something of its own.
func fill(v reflect.Value, n int) { golden.Fill(v, n, own) }

// own fills what not every value is valid for.
func own(v reflect.Value, n int) bool {
	switch v.Type() {
	case reflect.TypeFor[[]Command]():
		v.Set(reflect.ValueOf(oneOfEach()))
	case reflect.TypeFor[taskstate.Counts]():
		v.Set(reflect.ValueOf(taskstate.CountsOf(map[string]int64{"gpus": int64(n)})))
	default:
		return false
	}
	return true
}

// oneOfEach is every command there is.
func oneOfEach() (out []Command) {
	for i := range reflect.TypeFor[Command]().NumField() {
		var c Command
		fill(reflect.ValueOf(&c).Elem().Field(i), 1)
		out = append(out, c)
	}
	return out
}

// shapes are all values of this package that are on a disk or travel.
func shapes() map[string]any {
	out := map[string]any{}
	for name, v := range map[string]any{
		"entry": &Entry{}, "snapshot": &snapshot{},
	} {
		fill(reflect.ValueOf(v).Elem(), 1)
		out[name] = v
	}
	return out
}

// What older peers wrote is read for ever, so numbers of fields are never changed nor used again: a
// line of this file that changes, other than by something that is new at its end, is a ledger that
// can no longer be read. (Statuses and ends were arrays once; those are still read, see
// TestASnapshotFromBeforeEndsSaidHowLongTheyTookIsRead and package taskstate.)
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

// Entries are encoded from commands that came encoded, and read as entries.
func TestAnEntryOfEncodedCommandsIsThatEntry(t *testing.T) {
	var e Entry
	fill(reflect.ValueOf(&e).Elem(), 1)
	e.Index = 0
	raw := EncodedEntry{Epoch: e.Epoch, Stamp: e.Stamp, By: e.By}
	for _, c := range e.Commands {
		raw.Commands = append(raw.Commands, encoded(t, c))
	}
	if !bytes.Equal(encoded(t, raw), encoded(t, e)) {
		t.Errorf("as an entry\n%x\nand from encoded commands\n%x", encoded(t, e), encoded(t, raw))
	}
	back, err := ReadEntry(7, encoded(t, raw))
	if err != nil || back.Index != 7 || !bytes.Equal(back.raw, encoded(t, raw)) || len(back.Commands) != len(e.Commands) {
		t.Errorf("read back as %+v, %v", back, err)
	}
}
