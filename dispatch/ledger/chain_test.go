package ledger_test

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"covey/dispatch/ledger"
	"covey/taskstate"
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
