package replicas_test

import (
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/replicas"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

var peers = []taskstate.PeerID{"a", "b", "c", "d"}

func drawSlots(t *rapid.T) []replicas.Slot {
	var out []replicas.Slot
	for n := range rapid.IntRange(0, 12).Draw(t, "slots") {
		s := replicas.Slot{N: n + 1, Retired: rapid.Bool().Draw(t, "retired"), Peer: rapid.SampledFrom(append(peers, "")).Draw(t, "peer")}
		s.Running = s.Peer != "" && rapid.Bool().Draw(t, "running")
		out = append(out, s)
	}
	return out
}

// apply carries a change out.
func apply(t *rapid.T, slots []replicas.Slot, ch replicas.Change) []replicas.Slot {
	out := slices.Clone(slots)
	for _, n := range ch.Renew {
		if !out[n-1].Retired {
			t.Fatalf("slot %d is renewed and was not retired", n)
		}
		out[n-1].Retired = false
	}
	for _, n := range ch.Retire {
		if out[n-1].Retired {
			t.Fatalf("slot %d is retired twice", n)
		}
		out[n-1].Retired = true
	}
	for range ch.Grow {
		out = append(out, replicas.Slot{N: len(out) + 1})
	}
	for _, p := range ch.Pins {
		out = append(out, replicas.Slot{N: len(out) + 1, Peer: p})
	}
	return out
}

func TestAServiceGetsAsManySlotsAsWantedInOneStepAndThenRests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, want := drawSlots(t), rapid.IntRange(0, 15).Draw(t, "want")
		ch := replicas.Service(slots, want)
		if len(ch.Retire) > 0 && len(ch.Renew)+ch.Grow > 0 {
			t.Fatalf("it grows and shrinks: %+v", ch)
		}
		after := apply(t, slots, ch)
		n := 0
		for _, s := range after {
			if !s.Retired {
				n++
			}
		}
		if n != want {
			t.Fatalf("%d slots, want %d", n, want)
		}
		if again := replicas.Service(after, want); !again.Empty() {
			t.Fatalf("and then %+v", again)
		}
		if grown := len(after) > len(slots); grown && slices.ContainsFunc(after, func(s replicas.Slot) bool { return s.Retired }) {
			t.Fatal("slots were added while others are retired")
		}
	})
}

func TestShrinkingTakesWhatDoesNotRunThenFromTheFullestPeerThenTheHighestSlot(t *testing.T) {
	on := func(n int, peer string, running bool) replicas.Slot {
		return replicas.Slot{N: n, Peer: peer, Running: running}
	}
	for _, x := range []struct {
		what  string
		slots []replicas.Slot
		want  int
		gone  []int
	}{
		{"most copies", []replicas.Slot{on(1, "a", true), on(2, "b", true), on(3, "a", true)}, 2, []int{3}},
		{"then evenly", []replicas.Slot{on(1, "a", true), on(2, "a", true), on(3, "b", true), on(4, "a", true)}, 2, []int{2, 4}},
		{"not running first", []replicas.Slot{on(1, "a", false), on(2, "a", true), on(3, "b", true)}, 2, []int{1}},
		{"not running before most copies", []replicas.Slot{on(1, "a", true), on(2, "a", true), on(3, "b", false)}, 2, []int{3}},
		{"highest slot", []replicas.Slot{on(1, "a", true), on(2, "b", true)}, 1, []int{2}},
		{"what waits before all", []replicas.Slot{on(1, "a", true), on(2, "", false), on(3, "a", true)}, 2, []int{2}},
		{"all", []replicas.Slot{on(1, "a", true), on(2, "b", true)}, 0, []int{1, 2}},
	} {
		if got := replicas.Service(x.slots, x.want).Retire; !slices.Equal(got, x.gone) {
			t.Errorf("%s: gave up %v, want %v", x.what, got, x.gone)
		}
	}
}

func TestShrinkingGivesUpNothingThatRunsBesideSomethingThatDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := drawSlots(t)
		have := slices.DeleteFunc(slices.Clone(slots), func(s replicas.Slot) bool { return s.Retired })
		want := rapid.IntRange(0, len(have)).Draw(t, "want")
		ran, run, down := 0, 0, 0
		for _, s := range have {
			if s.Running {
				ran++
			}
		}
		after := apply(t, slots, replicas.Service(slots, want))
		for _, s := range after {
			switch {
			case s.Retired:
			case s.Running:
				run++
			default:
				down++
			}
		}
		if run != min(ran, want) || run < ran && down > 0 {
			t.Fatalf("%d tasks ran, %d slots are wanted: %d run and %d do not", ran, want, run, down)
		}
	})
}

func TestAGlobalJobHasOneSlotOnEachPeerThatFitsAndThenRests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := drawSlots(t)
		for i := range slots {
			if slots[i].Peer == "" {
				slots[i].Peer = "a" // pinned, always
			}
		}
		var fit []taskstate.PeerID
		away := map[taskstate.PeerID]bool{}
		for _, p := range peers {
			if rapid.Bool().Draw(t, "fits") {
				fit = append(fit, p)
			} else if rapid.Bool().Draw(t, "away") {
				away[p] = true
			}
		}
		keep := func(p taskstate.PeerID) bool { return away[p] }
		after := apply(t, slots, replicas.Global(slots, fit, keep))
		count := map[taskstate.PeerID]int{}
		for _, s := range after {
			if !s.Retired {
				count[s.Peer]++
			}
		}
		for _, p := range peers {
			_, fits := slices.BinarySearch(fit, p)
			switch n := count[p]; {
			case fits && n != 1, n > 1, !fits && !away[p] && n > 0:
				t.Fatalf("%d slots on %s (fits %v, away %v)", n, p, fits, away[p])
			}
		}
		if again := replicas.Global(after, fit, keep); !again.Empty() {
			t.Fatalf("and then %+v", again)
		}
	})
}
