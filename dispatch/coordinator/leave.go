package coordinator

import (
	"slices"

	"covey/dispatch/session"
	"covey/taskstate"
)

// leaving is an open task whose worker is to stop it, for another reason than a cancel.
type leaving struct {
	why     taskstate.Reason
	next    int  // version of the attempt that follows
	retired bool // none follows
}

func (j *jobState) leave(slot int, l leaving) {
	if j.leaving == nil {
		j.leaving = map[int]leaving{}
	}
	j.leaving[slot] = l
}

// leaves tells whether a slot's open task is to be stopped.
func (j *jobState) leaves(slot int) bool { _, ok := j.leaving[slot]; return ok }

// stopLeaving tells a peer with a session to stop a task that leaves.
func (c *Core) stopLeaving(p *peerState, h *holding, slot int) {
	r, open := h.slots[slot]
	if s := p.session; s != nil && s.synced && open && !r.is(ended|stopped) {
		r.marks |= stopped
		h.slots[slot] = r
		s.stops = append(s.stops, session.Stop{Task: taskstate.Task(h.job.id, slot, int(r.attempt)), Reason: h.job.leaving[slot].why})
		c.touch(s)
	}
}

// stopLeaving puts into a Complete set what is to be stopped. Like the tasks of a cancelled job they are not granted: a worker that has them
// ends them with the right reason, one that has not says so.
func (h *holding) stopLeaving(f *framer) {
	if len(h.job.leaving) == 0 {
		return
	}
	slots := h.sorted(func(r rec) bool { return !r.is(ended | inherited) })
	for _, n := range slices.DeleteFunc(slots, func(n int) bool { return !h.job.leaves(n) }) {
		r := h.slots[n]
		r.marks |= stopped
		h.slots[n] = r
		f.stop(session.Stop{Task: taskstate.Task(h.job.id, n, int(r.attempt)), Reason: h.job.leaving[n].why})
	}
}
