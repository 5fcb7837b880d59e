package placement

import (
	"cmp"
	"slices"
)

// bucket takes tasks: a peer, or a group of peers.
type bucket struct {
	have  int   // tasks of the job in it
	room  int   // tasks it can still take
	total int   // tasks of all jobs: breaks ties
	here  int64 // bytes of the inputs: breaks the next
	id    string
	given int // tasks
}

// fillLevel hands up to n tasks to the buckets, each time to the one that has the fewest of the
// job, and tells how many it handed out.
//
// Handing them out one by one fills the buckets like water fills a basin with an uneven floor. So
// the water level is computed instead: every bucket is raised to it, and the few tasks that do not
// make a whole level go to those at the surface with the fewest tasks in total, and among these to
// those that keep most of the inputs.
func fillLevel(vs []bucket, n int, seed uint64) int {
	if n <= 0 || len(vs) == 0 {
		return 0
	}
	level, given := waterLevel(vs, n), 0
	for i := range vs {
		vs[i].given = vs[i].below(level)
		given += vs[i].given
	}
	if given == n {
		return given
	}
	type rising struct {
		*bucket
		draw uint64
	}
	var surface []rising
	for i := range vs {
		if v := &vs[i]; v.have+v.given == level && v.given < v.room {
			surface = append(surface, rising{v, draw(seed, v.id)})
		}
	}
	slices.SortFunc(surface, func(a, b rising) int {
		if c := cmp.Compare(a.total+a.given, b.total+b.given); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(b.here, a.here), cmp.Compare(a.draw, b.draw), cmp.Compare(a.id, b.id))
	})
	for _, v := range surface[:min(n-given, len(surface))] {
		v.given++
		given++
	}
	return given
}

// waterLevel is the highest number of tasks of the job to which all buckets can be raised with at
// most n tasks.
func waterLevel(vs []bucket, n int) int {
	low, high := vs[0].have, vs[0].have
	for i := range vs {
		low = min(low, vs[i].have)
		high = max(high, vs[i].have+min(n, vs[i].room))
	}
	for low < high { // the greatest level that needs no more than n
		mid := low + (high-low+1)/2
		sum := 0
		for i := range vs {
			if sum += vs[i].below(mid); sum > n {
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

// below is how many tasks v takes to reach the level, within its room.
func (v *bucket) below(level int) int { return max(0, min(level-v.have, v.room)) }

// draw is a number for a name that depends on seed and name alone (FNV-1a, then a finishing mix).
func draw(seed uint64, id string) uint64 {
	h := uint64(14695981039346656037) ^ seed
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h ^= h >> 31
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}
