package worker

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// maxPassed is how many waiting tasks are looked past for one that could start.
const maxPassed = 64

// turns says, task by task in the order of the queue, which of them may start now. What is free is
// kept for the first one that does not fit: those behind it may have what it leaves over – a task
// that waits for the last licence is no reason to leave cpus idle – and never anything that would
// make it wait longer. So everyone gets to the front, and starts there.
type turns struct {
	free   taskstate.Resources
	first  *ownTask // that does not fit
	waited int      // how many do not fit
}

// comes tells whether it is a task's turn, and keeps what it needs for it if so, or if it is the
// first that has to wait.
func (t *turns) comes(h *ownTask) bool {
	need := h.job.job.Resources
	fits := (t.first == nil || h.job != t.first.job) && need.Fits(t.free)
	if fits || t.first == nil {
		t.free = t.free.Sub(need)
	}
	if !fits {
		t.waited++
		if t.first == nil {
			t.first = h
		}
	}
	return fits
}

// queue owns the order in which tasks that promise resources take their turn, and which of those
// that wait nobody was told of yet. Only the core calls it.
type queue struct {
	tasks  []*ownTask
	unsaid []unsaidTask // accepted, in order: shown as Accepted if they do not start soon
}

// unsaidTask is a task that was accepted and whose turn has not come, and when that is to be said.
type unsaidTask struct {
	*ownTask
	due time.Time
}

// add puts tasks where their order of acceptance says.
func (q *queue) add(hs ...*ownTask) {
	sorted := len(q.tasks) == 0 || len(hs) == 0 || q.tasks[len(q.tasks)-1].order < hs[0].order
	if q.tasks = append(q.tasks, hs...); !sorted {
		slices.SortStableFunc(q.tasks, func(a, b *ownTask) int { return cmp.Compare(a.order, b.order) })
	}
}

// accepted is called when a task's assignment is on disk and its turn has not come; that it waits
// is said when due.
func (q *queue) accepted(h *ownTask, due time.Time) {
	h.phase = phaseQueued
	q.unsaid = append(q.unsaid, unsaidTask{h, due})
}

// next hands out those whose turn it is, of what is marked on disk as begun.
func (q *queue) next(free taskstate.Resources, begun uint64) (starting []*ownTask) {
	t, kept, i := turns{free: free}, 0, 0
	for ; i < len(q.tasks) && t.waited < maxPassed; i++ {
		h := q.tasks[i]
		if h.phase == phaseGranted || h.phase == phaseQueued && h.order > begun {
			break // nor is what comes behind it on disk
		}
		switch {
		case h.phase != phaseQueued: // it was taken back, or stopped
		case h.prepared() && t.comes(h):
			starting = append(starting, h)
		default:
			q.tasks[kept] = h
			kept++
		}
	}
	q.remove(kept, i)
	return starting
}

// of lists the tasks of a job that wait for their turn, or will. Those that leave meanwhile are no
// matter.
func (q *queue) of(j *ownJob) iter.Seq[*ownTask] {
	return func(yield func(*ownTask) bool) {
		for _, h := range q.tasks {
			if h.job == j && (h.phase == phaseQueued || h.phase == phaseGranted) && !yield(h) {
				return
			}
		}
	}
}

// remove takes out what stands from place kept to place next.
func (q *queue) remove(kept, next int) {
	switch {
	case kept == next:
		return
	case kept == 0: // all of it was at the front
		clear(q.tasks[:next])
		q.tasks = q.tasks[next:]
	default:
		n := kept + copy(q.tasks[kept:], q.tasks[next:])
		clear(q.tasks[n:])
		q.tasks = q.tasks[:n]
	}
	if len(q.tasks) == 0 {
		q.tasks = nil
	}
}

// mark is how far the mark "may have been started" should reach: over what may start now, and some
// way ahead, so that a slot seldom waits for the disk. After a crash, marked tasks count as begun;
// work that must not run twice is marked only when it may start.
func (q *queue) mark(free taskstate.Resources, begun uint64, ahead int) (mark uint64, needed bool) {
	mark = begun
	t := turns{free: free}
	n := 0
	for _, h := range q.tasks {
		if n == ahead {
			break
		}
		if h.phase != phaseQueued && h.phase != phaseGranted {
			continue
		}
		if !h.prepared() {
			if h.job.job.Unreachable.Wait && h.durable.State != taskstate.Preparing {
				break
			}
			continue // others pass it
		}
		n++
		fits := t.comes(h)
		if h.job.job.Unreachable.Wait && !fits {
			break
		}
		if fits && h.order > begun && h.phase == phaseQueued {
			needed = true
		}
		mark = max(mark, h.order)
	}
	return mark, needed
}

// overdue hands out those of which it is to be said by now that they wait for their turn, or all of
// which it has not been said.
func (q *queue) overdue(now time.Time, all bool) (waiting []*ownTask) {
	for len(q.unsaid) > 0 {
		u := q.unsaid[0]
		if u.phase == phaseQueued {
			if now.Before(u.due) && !all {
				return waiting
			}
			waiting = append(waiting, u.ownTask)
		}
		q.unsaid[0] = unsaidTask{}
		q.unsaid = q.unsaid[1:]
	}
	q.unsaid = nil
	return waiting
}

// wake is when overdue is to be asked next, zero if never.
func (q *queue) wake() time.Time {
	if len(q.unsaid) == 0 {
		return time.Time{}
	}
	return q.unsaid[0].due
}
