package worker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// tasks owns the tasks held here, from when they are granted until their end is acknowledged, and
// counts what those that run use. Only the core calls it.
type tasks struct {
	of    map[taskstate.TaskID]*ownTask
	order uint64 // of the newest
	used  taskstate.Resources
	runs  int // started tasks whose process goes on
	live  int // tasks that are not over
}

// add makes a task known, as granted.
func (ts *tasks) add(id taskstate.TaskID, j *ownJob, f *ownFrame, index uint64, item string, since time.Time) *ownTask {
	ts.order++
	h := &ownTask{id: id, job: j, frame: f, pos: uint32(ts.order - f.record.Base), order: ts.order, item: item, since: since}
	h.status = taskstate.Status{Task: id, Seq: 1, State: taskstate.Accepted, Index: index, At: f.record.At, Exit: taskstate.NoExit}
	f.left++
	ts.of[id] = h
	ts.live++
	return h
}

// begin counts a task as started.
func (ts *tasks) begin(h *ownTask) {
	h.phase = phaseStarted
	ts.used = ts.used.Add(h.job.job.Resources)
	ts.runs++
}

// free is what is left of an offer.
func (ts *tasks) free(of session.Offer) taskstate.Resources { return of.Resources.Sub(ts.used) }

// leave takes a task out of those that run, if it is one, for another phase.
func (ts *tasks) leave(h *ownTask, to phase) {
	if h.phase == phaseStarted {
		ts.used = ts.used.Sub(h.job.job.Resources)
		ts.runs--
	}
	if to == phaseOver && h.phase != phaseOver {
		ts.live--
	}
	h.phase = to
}

// all lists the tasks in order of acceptance.
func (ts *tasks) all() []*ownTask {
	hs := slices.Collect(maps.Values(ts.of))
	slices.SortFunc(hs, func(a, b *ownTask) int { return cmp.Compare(a.order, b.order) })
	return hs
}

// living lists those that have not ended, in order of acceptance.
func (ts *tasks) living() []*ownTask {
	return slices.DeleteFunc(ts.all(), func(h *ownTask) bool { return h.phase == phaseOver })
}
