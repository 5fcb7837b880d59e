package coordinator

import (
	"slices"

	"covey/dispatch/session"
	"covey/taskstate"
)

// giveUp mirrors what the ledger does when an open attempt ends without its worker. A worker that may still run it is told to
// stop.
func (c *Core) giveUp(p *peerState, h *holding, slot int, r rec, again bool, why taskstate.Reason) {
	t := taskstate.Task(h.job.id, slot, int(r.attempt))
	if s := p.session; s != nil && s.synced && !r.is(ended) {
		s.stops = append(s.stops, session.Stop{Task: t, Reason: why})
		c.touch(s)
	}
	if again && !h.job.cancelled {
		c.given.add(t)
	}
	c.close(p, h, slot, r)
	c.enqueue(h.job)
}

// giveUpAll mirrors what happens to a peer's open tasks when it is removed, leaves or comes back as another incarnation. Ends that
// it told before and that are not decided yet are decided as what they are now: late.
func (c *Core) giveUpAll(p *peerState) {
	c.keepTold(p)
	for _, h := range p.byAge() {
		slots := make([]int, 0, len(h.slots))
		for n := range h.slots {
			slots = append(slots, n)
		}
		slices.Sort(slots)
		for _, n := range slots {
			c.giveUp(p, h, n, h.slots[n], !h.job.job.Unreachable.Wait, taskstate.ReasonInterrupted)
		}
	}
}

// byAge lists what p holds, the oldest job first.
func (p *peerState) byAge() []*holding {
	out := make([]*holding, 0, len(p.holds))
	for _, h := range p.holds {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *holding) int { return int(min(1, max(-1, int64(a.job.index)-int64(b.job.index)))) })
	return out
}

// appliedCancel stops a job: what waits is over, what is open is stopped wherever a session is up; elsewhere it is stopped when
// the worker comes back.
func (c *Core) appliedCancel(id taskstate.JobID) {
	j := c.jobs[id]
	if j == nil {
		return
	}
	j.cancelled = true
	j.lots, j.later, j.leaving = nil, nil, nil
	for _, p := range c.order {
		if h := p.holds[id]; h != nil {
			c.stopAll(p, h)
			if p.standing == Unreachable {
				c.wakeAt(c.now)
			}
		}
	}
	c.endJob(j)
}

// stopAll tells a peer with a session to stop all it has of a job.
func (c *Core) stopAll(p *peerState, h *holding) {
	s := p.session
	if s == nil || !s.synced {
		return
	}
	for _, n := range h.sorted(func(r rec) bool { return !r.is(ended | stopped) }) {
		r := h.slots[n]
		r.marks |= stopped
		h.slots[n] = r
		s.stops = append(s.stops, session.Stop{Task: taskstate.Task(h.job.id, n, int(r.attempt)), Reason: taskstate.ReasonCancelled})
	}
	c.touch(s)
}

// sorted lists the slots of a holding whose task pick accepts, ascending.
func (h *holding) sorted(pick func(rec) bool) []int {
	var out []int
	for n, r := range h.slots {
		if pick(r) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
