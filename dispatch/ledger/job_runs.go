package ledger

import (
	"slices"
	"sort"
)

// runs are slots that wait, in ascending disjoint runs of one attempt each, as long as possible:
// two sets of the same slots and attempts look the same however they came about.
type runs []Slots

// find returns the position of the first run that ends at or after slot n.
func (r runs) find(n int) int {
	if len(r) > 0 && n < r[0].First+r[0].N { // the front is where nearly everything happens
		return 0
	}
	return sort.Search(len(r), func(i int) bool { return r[i].First+r[i].N > n })
}

// remove takes out as much of want as waits in want's attempt, and appends what does not to
// refused.
func (r *runs) remove(want Slots, took func(first, n int), refused []Slots) []Slots {
	for want.N > 0 {
		i := r.find(want.First)
		if i == len(*r) || (*r)[i].First >= want.First+want.N {
			return append(refused, want)
		}
		x := (*r)[i]
		if gap := x.First - want.First; gap > 0 {
			refused = append(refused, Slots{First: want.First, N: gap, Attempt: want.Attempt})
			want.First, want.N = want.First+gap, want.N-gap
		}
		n := min(want.N, x.First+x.N-want.First)
		if x.Attempt == want.Attempt {
			r.shorten(i, want.First, n)
			took(want.First, n)
		} else {
			refused = append(refused, Slots{First: want.First, N: n, Attempt: want.Attempt})
		}
		want.First, want.N = want.First+n, want.N-n
	}
	return refused
}

// shorten takes out first … first+n-1 from run i, which contains them.
func (r *runs) shorten(i, first, n int) {
	x := &(*r)[i]
	before, after := first-x.First, x.First+x.N-(first+n)
	rest := Slots{First: first + n, N: after, Attempt: x.Attempt}
	switch {
	case before == 0 && after == 0 && i == 0:
		*r = (*r)[1:]
	case before == 0 && after == 0:
		*r = slices.Delete(*r, i, i+1)
	case before == 0:
		*x = rest
	case after == 0:
		x.N = before
	default:
		x.N = before
		*r = slices.Insert(*r, i+1, rest)
	}
}

// put adds one slot that does not wait yet.
func (r *runs) put(n, attempt int) {
	i := r.find(n)
	joinsLeft := i > 0 && (*r)[i-1].First+(*r)[i-1].N == n && (*r)[i-1].Attempt == attempt
	joinsRight := i < len(*r) && (*r)[i].First == n+1 && (*r)[i].Attempt == attempt
	switch {
	case joinsLeft && joinsRight:
		(*r)[i-1].N += 1 + (*r)[i].N
		*r = slices.Delete(*r, i, i+1)
	case joinsLeft:
		(*r)[i-1].N++
	case joinsRight:
		(*r)[i].First--
		(*r)[i].N++
	default:
		*r = slices.Insert(*r, i, Slots{First: n, N: 1, Attempt: attempt})
	}
}

// merge is both together. No slot waits in both.
func (r runs) merge(o runs) runs {
	if len(r) == 0 || len(o) == 0 {
		return append(r, o...)
	}
	out := make(runs, 0, len(r)+len(o))
	for len(r) > 0 || len(o) > 0 {
		if len(o) == 0 || len(r) > 0 && r[0].First < o[0].First {
			out.add(r[0])
			r = r[1:]
		} else {
			out.add(o[0])
			o = o[1:]
		}
	}
	return out
}

// add appends a run behind all others, joining it with the last one.
func (r *runs) add(x Slots) {
	*r = AppendSlots(*r, x)
}
