package ledger

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
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
		if c != (Command{}) { // NextCommand may have none
			out = append(out, c)
		}
	}
	return out
}

// What older peers wrote is read for ever, so numbers of fields are never changed nor used again: a
// line of shapes.txt that changes, other than by something that is new at its end, is a ledger that
// can no longer be read. (Statuses and ends are arrays in what version 0.1 wrote: see
// TestASnapshotOfVersion01HoldsWhatItHeld and package taskstate.)
func TestEveryShapeKeepsItsNumbers(t *testing.T) {
	golden.Wires(
		t, "shapes.txt",
		golden.Wire{Name: "entry", Frames: map[string]any{"entry": &Entry{}}, Own: own},
		golden.Wire{Name: fmt.Sprint("snapshot ", snapshotVersion), Frames: map[string]any{"snapshot": &snapshot{}}, Own: own},
	)
}

// Replicas of two versions compare checksums over what entries came to, in which a result's fields
// go by their names: with one that is added, renamed or of another type, a replica takes the other
// version's disk for bad. Such a change needs another chain, which begins at a Lead that says so,
// in a dialect of its own. A field that need not agree is tagged "-".
func TestReplicasOfThisChainHashTheSameOfEveryResult(t *testing.T) {
	var r Result
	fill(reflect.ValueOf(&r).Elem(), 1)
	whole := ChainOver(r)
	r.Reopened = &Outline{}
	if ChainOver(r) != whole {
		t.Error("what a job that was reopened is counts: not every replica knows that")
	}
	said, err := cbor.Diagnose(encoded(t, r))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("result: %s\nchain: %x\n", strings.ReplaceAll(said, ", \"", ",\n  \""), whole)
	if err := golden.Check("testdata/chain.txt", text); err != nil {
		t.Error(err)
	}
	golden.Freeze(t, "chain 1", text)
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := wire.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
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
	back, err := ReadShown(7, encoded(t, raw))
	if err != nil || back.Index != 7 || !bytes.Equal(back.raw, encoded(t, raw)) || len(back.Commands) != len(e.Commands) {
		t.Errorf("read back as %+v, %v", back, err)
	}
}
