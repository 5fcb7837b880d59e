package dispatch

import (
	"slices"
	"time"

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
func (c *Coordinator) stopLeaving(p *peerState, h *holding, slot int) {
	r, open := h.slots[slot]
	if s := p.session; s != nil && s.synced && open && !r.is(ended|stopped) {
		r.marks |= stopped
		h.slots[slot] = r
		s.stops = append(s.stops, Stop{Task: taskstate.Task(h.job.id, slot, int(r.attempt)), Reason: h.job.leaving[slot].why})
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
		f.stop(Stop{Task: taskstate.Task(h.job.id, n, int(r.attempt)), Reason: h.job.leaving[n].why})
	}
}

// A version of a job that failed on a peer so often in so short a time is not given to that peer for as long, if there is another one.
const (
	faultCount = 5
	faultTime  = 5 * time.Minute
)

// faults remembers where tasks of the present version failed: for each peer the newest times.
type faults map[taskstate.PeerID][]time.Time

func (f faults) any() bool { return len(f) > 0 }

func (f *faults) add(p taskstate.PeerID, now time.Time) {
	if *f == nil {
		*f = faults{}
	}
	list := append((*f)[p], now)
	(*f)[p] = list[max(0, len(list)-faultCount):]
}

// faulty tells whether the job's tasks failed too often on a peer.
func (f faults) faulty(p taskstate.PeerID, now time.Time) bool {
	list := f[p]
	return len(list) == faultCount && now.Sub(list[0]) < faultTime
}

// excuse tells whether no peer that a job's tasks may go to is without fault: then all are as good as any.
func (c *Coordinator) excuse(j *jobState) bool {
	if !j.faults.any() {
		return false
	}
	return !slices.ContainsFunc(c.order, func(p *peerState) bool {
		return p.worker && p.standing == Ready && p.takes() && j.allows(p) && j.job.Resources.Fits(p.offer.Resources) && !j.faults.faulty(p.id, c.now)
	})
}

// amend has the core look again when a peer may have back what failed there.
func (c *Coordinator) amend(at time.Time) {
	if c.amends.IsZero() || at.Before(c.amends) {
		c.amends = at
	}
	c.wakeAt(c.amends)
}

// dueAmends lets peers have what failed there again, once it was long enough ago.
func (c *Coordinator) dueAmends() {
	if c.amends.IsZero() {
		return
	}
	if !c.now.Before(c.amends) {
		c.dirty, c.amends = true, time.Time{}
		for _, j := range c.jobs {
			for p, list := range j.faults {
				if j.faults.faulty(p, c.now) {
					c.amend(list[0].Add(faultTime))
				}
			}
		}
		return
	}
	c.wakeAt(c.amends)
}

// ended takes note of how a task ended whose end is decided now.
func (c *Coordinator) ended(p *peerState, h *holding, st *taskstate.Status, r rec) {
	j := h.job
	if j.leaves(st.Task.Slot) || j.cancelled {
		return
	}
	failed := st.State == taskstate.Failed || st.State == taskstate.Rejected
	if failed && j.job.Restart != nil && int(r.version) == j.job.Version {
		j.faults.add(p.id, c.now)
		if j.faults.faulty(p.id, c.now) {
			c.amend(j.faults[p.id][0].Add(faultTime))
		}
	}
	j.lasting.ended(st, int(r.version), j.job, c.now)
}
