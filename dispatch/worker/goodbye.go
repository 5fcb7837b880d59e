package worker

import (
	"covey/dispatch/session"
	"covey/taskstate"
)

// A worker that stops, or ends for a while, gives back what it has not started, and must not be
// gone before it has given back what is still on its way to it: tasks that nobody received would
// wait for a peer that said goodbye, as long as for one that vanished. So it says Goodbye, the
// coordinator gives it nothing more and answers Released once what was under way has been sent, and
// what comes before that is given back as well.

// handBack gives back everything that has not started. The caller has set stopping.
func (c *Core) handBack() {
	for _, h := range c.living() {
		if h.phase != phaseStarted {
			c.giveBack(h)
		}
	}
	c.sendOffer()
	c.giveBackAtWord()
	c.sayGoodbye()
}

// giveBack ends a task that was not started, so that another peer gets its slot at once.
func (c *Core) giveBack(h *heldTask) {
	c.finish(h, taskstate.Rejected, taskstate.ReasonInterrupted, "its peer stopped before it started")
}

func (c *Core) sayGoodbye() {
	if c.stopping && c.link.up {
		c.send(session.Up{Goodbye: &session.Goodbye{}})
	}
}

// parted tells whether nothing can be on its way to this worker any more, as far as it can find
// out: without a stream it cannot.
func (c *Core) parted() bool {
	return c.link.id == 0 || c.link.released
}
