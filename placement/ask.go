package placement

import (
	"math"
	"slices"
	"strings"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// ask is a need prepared for being put to many peers.
type ask struct {
	Need
	counts []named // Resources.Others, taken apart once
	bars   []bar   // why owners do not let it in, as far as they were asked
}

// bar is why owners do not let it in, how many say so, and the first of them.
type bar struct {
	text  string
	peers int
	first taskstate.PeerID
}

// named is a number of something that is counted by name.
type named struct {
	name string
	n    int64
}

func prepare(need Need) *ask {
	a := &ask{Need: need}
	if need.Matcher != nil {
		need.Matcher.serve(need.Constraints)
	}
	for name, n := range need.Resources.Others.Map() {
		if n > 0 {
			a.counts = append(a.counts, named{name, n})
		}
	}
	slices.SortFunc(a.counts, func(x, y named) int { return strings.Compare(x.name, y.name) })
	return a
}

// howMany tasks fit into what is free: negative where more is promised than offered, MaxInt32 where
// nothing is asked for. missed is what there is least of: 0 for cpus, memory and disk,
// i+1 for a.counts[i].
func (a *ask) howMany(free taskstate.Resources) (n, missed int) {
	least := int64(math.MaxInt32)
	if a.Resources.MilliCPU > 0 {
		least = min(least, floorDiv(free.MilliCPU, a.Resources.MilliCPU))
	}
	if a.Resources.Memory > 0 {
		least = min(least, floorDiv(free.Memory, a.Resources.Memory))
	}
	if a.Resources.Disk > 0 {
		least = min(least, floorDiv(free.Disk, a.Resources.Disk))
	}
	for i, c := range a.counts {
		if fits := floorDiv(free.Others.Of(c.name), c.n); fits < least {
			least, missed = fits, i+1
		}
	}
	return int(max(least, -math.MaxInt32)), missed
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// resource names what howMany said was missed.
func (a *ask) resource(missed int) string {
	if missed == 0 {
		return "resources"
	}
	return a.counts[missed-1].name
}

// broken is the first constraint that a peer does not meet, -1 for none.
func (a *ask) broken(c *candidate) int {
	switch {
	case len(a.Constraints) == 0:
		return -1
	case a.Matcher != nil:
		return a.Matcher.broken(c.at, c.Facts)
	}
	return constraint.FirstBroken(a.Constraints, c.Facts)
}
