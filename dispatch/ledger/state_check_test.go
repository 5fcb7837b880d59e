package ledger_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func checkJob(r *rapid.T, j *ledger.JobRecord) {
	var want ledger.Counts
	var pending, open []int
	for n := 1; n <= j.Slots(); n++ {
		s := j.Slot(n)
		switch {
		case s.Open:
			want.Open++
			open = append(open, n)
		case s.Pending():
			want.Pending++
			pending = append(pending, n)
		case s.Retired:
			want.Retired++
		default:
			countEnd(&want, s.Final.State)
		}
	}
	if got := j.Counts(); got != want {
		r.Fatalf("job %s counts %+v, its slots %+v", j.Job().ID, got, want)
	}
	var runs, opened, waiting []int
	for a := range j.Waiting() {
		for n := a.Slots.First; n < a.Slots.First+a.Slots.N; n++ {
			waiting = append(waiting, n)
			if s := j.Slot(n); s.Attempt != a.Slots.Attempt || s.Version != a.Version || s.NotBefore != a.NotBefore || j.NotBefore(n) != a.NotBefore {
				r.Fatalf("slot %d waits as %+v, Waiting says %+v", n, s, a)
			}
		}
	}
	last := ledger.Slots{First: -1}
	for x := range j.PendingSlots() {
		if x.N < 1 || x.First < last.First+last.N || x.First == last.First+last.N && x.Attempt == last.Attempt {
			r.Fatalf("run %v follows %v", x, last)
		}
		for n := range x.All() {
			runs = append(runs, n)
			if j.Slot(n).Attempt != x.Attempt {
				r.Fatalf("slot %d waits in attempt %d, its run says %v", n, j.Slot(n).Attempt, x)
			}
		}
		last = x
	}
	for s := range j.OpenSlots() {
		opened = append(opened, s.Slot)
	}
	if !slices.Equal(runs, pending) || !slices.Equal(waiting, pending) || !slices.Equal(opened, open) {
		r.Fatalf("pending %v in runs, %v in slots; open %v and %v", runs, pending, opened, open)
	}
	checkOver(r, j, want)
}

// checkOver holds what a job says of itself as a whole against its counts.
func checkOver(r *rapid.T, j *ledger.JobRecord, c ledger.Counts) {
	_, over := j.Ended()
	_, _, cancelled := j.Cancelled()
	wanted := j.Slots() - c.Retired
	want := c.Pending+c.Open == 0
	switch {
	case j.Scheduled():
		want = cancelled
	case j.Lasts() && !cancelled:
		want = want && wanted > 0 && wanted >= j.Job().Count && !j.Rollout().State.Active()
	}
	if over != want || over != j.State().Final() {
		r.Fatalf("job %s: over is %t, state %v, counts %+v", j.Job().ID, over, j.State(), c)
	}
	if len(j.Blocked()) > 0 && (c.Open > 0 || over || j.State() != taskstate.Pending) {
		r.Fatalf("job %s is blocked by %v, and its counts are %+v", j.Job().ID, j.Blocked(), c)
	}
	if r1 := j.Rollout(); j.Lasts() && (j.JobOf(r1.Version) != j.Job() || r1.From != 0 && j.JobOf(r1.From) == nil) {
		r.Fatalf("job %s keeps versions %v, and its rollout is %+v", j.Job().ID, j.Versions(), r1)
	}
}

func countEnd(c *ledger.Counts, st taskstate.State) {
	switch st {
	case taskstate.Complete:
		c.Complete++
	case taskstate.Failed:
		c.Failed++
	case taskstate.Rejected:
		c.Rejected++
	case taskstate.Shutdown:
		c.Shutdown++
	case taskstate.Orphaned:
		c.Orphaned++
	}
}
