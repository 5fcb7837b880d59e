package quorum

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
)

// The ring is held against one that keeps everything and drops from the old end what is too much.
func TestTheRingServesAllThatItPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 50).Draw(t, "limit")
		r, floor, at := newRing(limit), uint64(0), uint64(0)
		var kept []item
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
				at += rapid.Uint64Range(0, 5).Draw(t, "ahead")
				r.reset(at)
				kept, floor = nil, at
				continue
			}
			at += rapid.Uint64Range(1, 3).Draw(t, "next")
			it := item{Index: at, Data: make([]byte, rapid.IntRange(0, 30).Draw(t, "bytes"))}
			r.add(at, it.Data, ledger.Public{})
			kept = append(kept, it)
			for size(kept) > limit && len(kept) > 1 {
				floor, kept = kept[0].Index, kept[1:]
			}
			after, budget := rapid.Uint64Range(0, at+2).Draw(t, "after"), rapid.IntRange(1, 60).Draw(t, "budget")
			items, ok := r.after(after, budget)
			if ok != (after >= floor) {
				t.Fatalf("what comes after %d is there: %t, the floor is %d", after, ok, floor)
			}
			rest := slices.DeleteFunc(slices.Clone(kept), func(x item) bool { return x.Index <= after })
			if !ok {
				continue
			}
			if len(items) > len(rest) || len(items) == 0 && len(rest) > 0 || len(items) > 1 && size(items) > budget {
				t.Fatalf("%d of %d entries with %d bytes came, the budget is %d", len(items), len(rest), size(items), budget)
			}
			for i := range items {
				if items[i].Index != rest[i].Index {
					t.Fatalf("entry %d is %d, want %d", i, items[i].Index, rest[i].Index)
				}
			}
			if len(items) < len(rest) && size(rest[:len(items)+1]) <= budget {
				t.Fatalf("one more would have fitted: %d of %d", len(items), len(rest))
			}
		}
		if r.end() != at {
			t.Fatalf("the newest is %d, want %d", r.end(), at)
		}
	})
}

func size(items []item) (n int) {
	for _, x := range items {
		n += len(x.Data)
	}
	return n
}
