package ledger_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// A replica that began with a snapshot of version 0.1, or replays its log, comes to the chain of
// everybody else; before that it has none.
func TestAChainBeginsAtTheSameEntryForEverybody(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var all []ledger.Entry
		at := rapid.IntRange(1, 9).Draw(r, "the first leader of this version")
		for i := range 20 {
			c := submit(taskstate.JobID(fmt.Sprint("j", i+1)), 1)
			if i == at {
				c = ledger.Command{Lead: &ledger.Lead{Chain: true}}
			} else if i%3 == 0 {
				c = ledger.Command{Lead: &ledger.Lead{}}
			}
			all = append(all, ledger.Entry{Index: uint64(2 * (i + 1)), Epoch: taskstate.At(1, 1), Stamp: int64(i), By: "a", Commands: []ledger.Command{c}})
		}
		whole, other := ledger.NewState(), ledger.NewState()
		via := rapid.IntRange(0, 19).Draw(r, "snapshot after")
		for i, e := range all {
			whole.Apply(e)
			other.Apply(e)
			if i == via {
				back, err := ledger.DecodeState(encode(r, other))
				if err != nil {
					r.Fatal(err)
				}
				other = back
			}
			f1, s1 := whole.Chain()
			f2, s2 := other.Chain()
			if f1 != f2 || !bytes.Equal(s1, s2) {
				r.Fatalf("after entry %d the chains differ: from %d and %d", e.Index, f1, f2)
			}
			if want := uint64(2 * (at + 1)); i >= at && f1 != want || i < at && f1 != 0 {
				r.Fatalf("it begins with entry %d, want %d", f1, want)
			}
		}
	})
}

func TestWhatIsNoPartOfAResultIsNoPartOfTheChainEither(t *testing.T) {
	none := ledger.ChainOver(ledger.Result{})
	if ledger.ChainOver(ledger.Result{Version: 1}) == none {
		t.Fatal("what is a part of it does not count")
	}
	kind := reflect.TypeFor[ledger.Result]()
	for i := range kind.NumField() {
		field := kind.Field(i)
		if field.Tag.Get("cbor") != "-" {
			continue
		}
		var r ledger.Result
		switch v := reflect.ValueOf(&r).Elem().Field(i); v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			t.Fatalf("%s: what is another value of it?", field.Name)
		}
		if ledger.ChainOver(r) != none {
			t.Errorf("%s is in the chain: peers of another version would have another one", field.Name)
		}
	}
}

// A folder from before 0.2 may have a chain over whole entries, and a log that begins it.
func TestAChainOverWholeEntriesIsDropped(t *testing.T) {
	l := newLog(t)
	l.must(submit("j1", 1))
	var keys map[int]cbor.RawMessage
	if err := cbor.Unmarshal(encode(t, l.Unchained()), &keys); err != nil {
		t.Fatal(err)
	}
	keys[17], keys[18] = cbor.RawMessage{1}, append(cbor.RawMessage{0x58, 32}, make([]byte, 32)...)
	old, err := wire.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ledger.DecodeState(old)
	if err != nil {
		t.Fatal(err)
	}
	next := func(lead ledger.Lead) ledger.Entry {
		return ledger.Entry{Index: s.Index() + 1, Epoch: s.Epoch(), By: "p1", Commands: []ledger.Command{{Lead: &lead}}}
	}
	s.Apply(next(ledger.Lead{Whole: true}))
	if from, _ := s.Chain(); from != 0 {
		t.Errorf("it goes on from entry %d", from)
	}
	e := next(ledger.Lead{Chain: true})
	s.Apply(e)
	if from, _ := s.Chain(); from != e.Index {
		t.Errorf("the new one begins with entry %d, want %d", from, e.Index)
	}
}
