package placement

import (
	"cmp"
	"slices"
)

// spread hands up to n tasks to the candidates, within their limits for this tier, and tells how many it handed out.
//
// Handing them out one by one, each to the candidate with the fewest of the job, fills the candidates like water fills a vessel
// with an uneven floor. So the water level is computed instead: every candidate is raised to it, and the few tasks that do not
// make a whole level go to those at the surface with the fewest tasks in total.
func spread(cands []candidate, t tier, n int, seed uint64) int {
	if n <= 0 || len(cands) == 0 {
		return 0
	}
	level := waterLevel(cands, t, n)
	given := 0
	var surface []*candidate
	for i := range cands {
		c := &cands[i]
		take := c.below(level, t)
		c.given += take
		given += take
		if c.OfJob+c.given == level && c.given < c.limit(t) {
			c.draw = draw(seed, c.ID)
			surface = append(surface, c)
		}
	}
	slices.SortFunc(surface, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.Total+a.given, b.Total+b.given), cmp.Compare(a.draw, b.draw), cmp.Compare(a.ID, b.ID))
	})
	for _, c := range surface[:min(n-given, len(surface))] {
		c.given++
		given++
	}
	return given
}

// waterLevel is the highest number of tasks of the job to which all candidates can be raised with at most n tasks.
func waterLevel(cands []candidate, t tier, n int) int {
	low, high := cands[0].OfJob, cands[0].OfJob
	for i := range cands {
		c := &cands[i]
		low = min(low, c.OfJob)
		high = max(high, c.OfJob+c.given+min(n, c.limit(t)-c.given))
	}
	for low < high { // the greatest level that needs no more than n
		mid := low + (high-low+1)/2
		sum := 0
		for i := range cands {
			if sum += cands[i].below(mid, t); sum > n {
				break
			}
		}
		if sum <= n {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// below is how many tasks c takes to reach the level, within its limit.
func (c *candidate) below(level int, t tier) int {
	return max(0, min(level-c.OfJob, c.limit(t))-c.given)
}

// draw is a number for a peer that depends on seed and id alone (FNV-1a, then a finishing mix).
func draw(seed uint64, id string) uint64 {
	h := uint64(14695981039346656037) ^ seed
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h ^= h >> 31
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}
