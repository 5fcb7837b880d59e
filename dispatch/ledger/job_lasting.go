package ledger

import (
	"iter"
	"maps"
	"slices"
	"sort"

	"github.com/coveyproject/covey/taskstate"
)

// Lasts tells whether the job goes on until somebody ends it.
func (j *JobRecord) Lasts() bool { return j.long != nil }

// Slots is how many slots there are: they are 1 … Slots. Batch jobs have Count; lasting ones more,
// or fewer, for a while; those that only start others have none.
func (j *JobRecord) Slots() int { return j.slots.count }

// JobOf is the spec of a version of a lasting job: the one that is wanted, those that slots are of,
// and the one before. 0 is the one that is wanted, and the only one of other jobs. Nil if it is not
// kept.
func (j *JobRecord) JobOf(version int) *taskstate.Job {
	if version == 0 || version == j.job.Version {
		return j.job
	}
	if j.long == nil {
		return nil
	}
	return j.long.versions[version]
}

// Versions lists the versions that JobOf knows, ascending; none for jobs without versions.
func (j *JobRecord) Versions() []int {
	if j.long == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(j.long.versions))
}

// Blocked lists the jobs this one waits for: none of its slots is given out before they are
// complete.
func (j *JobRecord) Blocked() []taskstate.JobID { return slices.Clone(j.blocked) }

// Scheduled tells whether the job only starts others like it.
func (j *JobRecord) Scheduled() bool { return j.job.Schedule != nil }

// Pin is the only peer a slot may go to; "" = any.
func (j *JobRecord) Pin(slot int) taskstate.PeerID { return j.slots.extrasOf(slot).Pin }

// Waiting yields what nobody has, ascending, in runs of one attempt and one version that start at
// the same time. A slot that was never assigned costs nothing.
func (j *JobRecord) Waiting() iter.Seq[Again] {
	return func(yield func(Again) bool) {
		special := slices.Sorted(maps.Keys(j.slots.extras))
		for _, run := range j.slots.pending {
			i, _ := slices.BinarySearch(special, uint32(run.First))
			for first := run.First; first < run.First+run.N; {
				x, n := j.slots.extrasOf(first), 1
				if j.slots.extras[uint32(first)] == nil { // up to the next slot that has something
					n = run.First + run.N - first
					if i < len(special) {
						n = min(n, int(special[i])-first)
					}
				} else {
					i++
				}
				slots := Slots{First: first, N: n, Attempt: run.Attempt}
				if !yield(Again{Job: j.job.ID, Slots: slots, Version: j.slots.version(x), NotBefore: x.NotBefore}) {
					return
				}
				first += n
			}
		}
	}
}

// State is the state of the job as a whole: Pending while nothing of it runs or ran, and while it
// is blocked or only starts others; Running; and at its end Complete (every slot that was wanted),
// Shutdown (it was cancelled and that cut something off) or Failed. A lasting job is Running until
// its end.
func (j *JobRecord) State() taskstate.State {
	c := j.slots.counts
	wanted := j.slots.count - c.Retired
	switch {
	case !j.over && (len(j.blocked) > 0 || j.Scheduled()):
		return taskstate.Pending
	case !j.over && j.Lasts():
		return taskstate.Running
	case !j.over && c.Pending == j.slots.count:
		return taskstate.Pending
	case !j.over:
		return taskstate.Running
	case j.why == taskstate.ReasonMaxFails:
		return taskstate.Failed
	case j.cancelled && (j.Lasts() || j.Scheduled()):
		return taskstate.Shutdown
	case c.Complete == wanted && wanted > 0:
		return taskstate.Complete
	case wanted == 0, c.Shutdown > 0 && (j.cancelled || c.Failed+c.Rejected+c.Orphaned == 0):
		return taskstate.Shutdown
	}
	return taskstate.Failed
}

// KeepSkips is how many of the newest starts that a schedule skipped are remembered one by one.
const KeepSkips = 10

// Skipped is a start that a schedule skipped.
type Skipped struct {
	At    int64           `cbor:"1,keyasint"` // the moment it would have been for, in milliseconds since 1970
	Run   taskstate.JobID `cbor:"2,keyasint"` // the run that went on
	Stamp int64           `cbor:"3,keyasint"` // ledger stamp of the decision
}

// starts is what a schedule has started, and what not, also in a snapshot.
type starts struct {
	Since   int64     `cbor:"1,keyasint,omitempty"` // ledger stamp of the schedule's last change: nothing before is made up for
	Skipped int       `cbor:"2,keyasint,omitempty"` // how many starts were skipped
	Skips   []Skipped `cbor:"3,keyasint,omitempty"` // the newest of them, ascending; never changed in place
	Last    int64     `cbor:"4,keyasint,omitempty"` // moment of the newest run
}

// closed is the moment up to which nothing is decided any more: what the schedule was to do before
// it was changed, nobody wants now.
func (x *starts) closed() int64 { return max(x.Since, x.decided()) }

// decided is the newest moment that was decided about.
func (x *starts) decided() int64 {
	if n := len(x.Skips); n > 0 {
		return max(x.Last, x.Skips[n-1].At)
	}
	return x.Last
}

func (x *starts) skip(what Skipped) {
	x.Skips = append(slices.Clone(x.Skips[max(0, len(x.Skips)+1-KeepSkips):]), what)
	x.Skipped++
}

// valid tells whether what a snapshot says makes sense.
func (x *starts) valid() bool {
	for i := 1; i < len(x.Skips); i++ {
		if x.Skips[i].At <= x.Skips[i-1].At {
			return false
		}
	}
	return len(x.Skips) == min(x.Skipped, KeepSkips)
}

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
