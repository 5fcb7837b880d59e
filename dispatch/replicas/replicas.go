package replicas

import (
	"cmp"
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// Slot is a slot as the ledger has it, and what is known of its task.
type Slot struct {
	N       int
	Retired bool             // not wanted (any more)
	Peer    taskstate.PeerID // where its task is, or – pinned – has to be; "" while it waits
	Running bool
	Failed  bool // its version failed there
}

// Change is what makes the slots right. Renewed ones are among the retired.
type Change struct {
	Grow   int                // slots to add above the highest
	Pins   []taskstate.PeerID // slots to add, each for one peer
	Renew  []int
	Retire []int
}

// Empty tells that nothing is to change.
func (c Change) Empty() bool { return c.Grow == 0 && len(c.Pins)+len(c.Renew)+len(c.Retire) == 0 }

// Service makes the number of slots that are not retired want. Growing takes retired slots back,
// the lowest first, before it adds others. Shrinking gives up the Surplus.
func Service(slots []Slot, want int) Change {
	var have, idle []Slot
	for _, s := range slots {
		if s.Retired {
			idle = append(idle, s)
		} else {
			have = append(have, s)
		}
	}
	var ch Change
	if more := want - len(have); more > 0 {
		slices.SortFunc(idle, func(a, b Slot) int { return cmp.Compare(a.N, b.N) })
		for _, s := range idle[:min(more, len(idle))] {
			ch.Renew = append(ch.Renew, s.N)
		}
		ch.Grow = more - len(ch.Renew)
		return ch
	}
	ch.Retire = Surplus(have, len(have)-max(want, 0))
	return ch
}

// Surplus picks the n of these slots that are given up first, ascending: those that wait, then
// those whose tasks do not run, so that nothing that runs is given up beside something that is
// down; then those on which their version failed; then from the peer with most of them, the highest
// slot first.
func Surplus(slots []Slot, n int) []int {
	have := slices.Clone(slots)
	on := map[taskstate.PeerID]int{}
	for _, s := range have {
		if s.Peer != "" {
			on[s.Peer]++
		}
	}
	var out []int
	for ; n > 0; n-- {
		i := 0
		for k := range have {
			if before(have[k], have[i], on) {
				i = k
			}
		}
		out = append(out, have[i].N)
		if p := have[i].Peer; p != "" {
			on[p]--
		}
		have = slices.Delete(have, i, i+1)
	}
	slices.Sort(out)
	return out
}

// before tells whether a is given up sooner than b: a slot that waits costs nobody anything.
func before(a, b Slot, on map[taskstate.PeerID]int) bool {
	if waits := a.Peer == ""; waits != (b.Peer == "") {
		return waits
	}
	if a.Running != b.Running {
		return b.Running
	}
	if a.Failed != b.Failed {
		return a.Failed
	}
	if on[a.Peer] != on[b.Peer] {
		return on[a.Peer] > on[b.Peer]
	}
	return a.N > b.N
}

// Global gives each of the peers that fit (ascending) one slot, and takes the others theirs. keep
// tells of peers that do not fit now but keep the slot they have: one that is merely away comes
// back.
func Global(slots []Slot, fit []taskstate.PeerID, keep func(taskstate.PeerID) bool) Change {
	var ch Change
	has := map[taskstate.PeerID]bool{}
	for _, s := range slots {
		_, fits := slices.BinarySearch(fit, s.Peer)
		switch {
		case has[s.Peer] && !s.Retired:
			ch.Retire = append(ch.Retire, s.N)
		case has[s.Peer]:
		case fits && s.Retired:
			ch.Renew, has[s.Peer] = append(ch.Renew, s.N), true
		case !s.Retired && !fits && !keep(s.Peer):
			ch.Retire = append(ch.Retire, s.N)
		case !s.Retired:
			has[s.Peer] = true
		}
	}
	for _, p := range fit {
		if !has[p] {
			ch.Pins = append(ch.Pins, p)
		}
	}
	return ch
}
