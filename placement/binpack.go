package placement

import (
	"cmp"
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// binpack fills the candidates one after the other, the fullest first, so that others stay free for
// tasks that need much. How full a peer is: see fullness, then the number of its tasks; of equals,
// who keeps most of the inputs comes first. The order is that before the plan: a peer that is being
// filled stays the fullest.
func binpack(a *ask, cands []candidate, seed uint64) func(t tier, n int) int {
	type shelf struct {
		*candidate
		share float64
		draw  uint64
	}
	shelves := make([]shelf, len(cands))
	for i := range cands {
		c := &cands[i]
		shelves[i] = shelf{c, a.fullness(c.Offer, c.Free), draw(seed, c.ID)}
	}
	slices.SortFunc(shelves, func(a, b shelf) int {
		if c := cmp.Compare(b.share, a.share); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(b.Here, a.Here), cmp.Compare(a.draw, b.draw), cmp.Compare(a.ID, b.ID))
	})
	return func(t tier, n int) int {
		given := 0
		for _, s := range shelves {
			take := min(n-given, s.limit(t)-s.given)
			s.given += take
			given += take
		}
		return given
	}
}

// fullness is the greatest share that is promised of the cpus, the memory, and of the disk and the
// named counts that the job asks for. One division per share and no sums: the same on every
// machine.
func (a *ask) fullness(offer, free taskstate.Resources) float64 {
	share := func(offer, free int64) float64 {
		if offer <= 0 {
			return 0
		}
		return float64(offer-free) / float64(offer)
	}
	most := max(share(offer.MilliCPU, free.MilliCPU), share(offer.Memory, free.Memory))
	if a.Resources.Disk > 0 {
		most = max(most, share(offer.Disk, free.Disk))
	}
	for _, c := range a.counts {
		most = max(most, share(offer.Others.Of(c.name), free.Others.Of(c.name)))
	}
	return most
}
