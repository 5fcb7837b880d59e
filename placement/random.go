package placement

import (
	"cmp"
	"math/bits"
	"slices"
)

// random gives each task to one of the candidates that can still take one, all with equal chances:
// a peer with much room is not more likely than one with little, until that is full.
func random(cands []candidate, seed uint64) func(t tier, n int) int {
	drum := make([]*candidate, len(cands))
	for i := range cands {
		drum[i] = &cands[i]
		drum[i].draw = draw(seed, cands[i].ID)
	}
	slices.SortFunc(drum, func(a, b *candidate) int { return cmp.Or(cmp.Compare(a.draw, b.draw), cmp.Compare(a.ID, b.ID)) })
	rng := splitmix(seed)
	return func(t tier, n int) int {
		open := slices.DeleteFunc(slices.Clone(drum), func(c *candidate) bool { return c.given >= c.limit(t) })
		given := 0
		for ; given < n && len(open) > 0; given++ {
			i := rng.below(len(open))
			if open[i].given++; open[i].given >= open[i].limit(t) {
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
			}
		}
		return given
	}
}

// splitmix is splitmix64: written out, so that a seed means the same for ever.
type splitmix uint64

// below draws a number from 0 to n-1.
func (l *splitmix) below(n int) int {
	*l += 0x9e3779b97f4a7c15
	z := uint64(*l)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	high, _ := bits.Mul64(z^z>>31, uint64(n))
	return int(high)
}
