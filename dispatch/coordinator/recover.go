package coordinator

import "covey/taskstate"

// giveUpLost gives up what the recovered ledger says a worker has, and the worker has not: it never got there, or it ended and that
// was decided, and acknowledged to the worker, in the part of the ledger that was lost. It must not be sent again, because the same
// attempt would run twice: the slot gets another attempt, or, if its job must not run twice, ends.
func (c *Core) giveUpLost(p *peerState) {
	if c.began == 0 {
		return
	}
	for _, h := range p.byAge() {
		for _, n := range h.sorted(func(r rec) bool { return r.is(inherited) && !r.is(deciding) }) {
			r := h.slots[n]
			c.release(p, h, &r)
			r.marks |= deciding
			h.slots[n] = r
			c.supersede(h, taskstate.Task(h.job.id, n, int(r.attempt)), r, taskstate.ReasonDropped, true)
		}
	}
}
