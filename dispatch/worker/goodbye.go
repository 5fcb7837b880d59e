package worker

import (
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// A worker that stops, or ends for a while, gives back what it has not started, and must not be
// gone before it has given back what is still on its way to it: tasks that nobody received would
// wait for a peer that said goodbye, as long as for one that vanished. So it says Goodbye, the
// coordinator gives it nothing more and answers Released once what was under way has been sent, and
// what comes before that is given back as well.

// windDown answers a peer that leaves – whatever has not ended ends as interrupted, and the
// coordinator gives it to others – or one that ends for a while, by SIGTERM: what runs goes on
// without it. What has not started need not wait for that.
func (c *Core) windDown(detach bool) {
	if c.stopping {
		return
	}
	c.stopping, c.detached = true, detach
	for _, h := range c.held.living() {
		switch {
		case !h.phase.begun():
			c.turnAway(h)
		case !detach:
			c.stop(h, taskstate.ReasonInterrupted)
		}
	}
	c.sendOffer()
	c.giveBackAtWord()
	c.sayGoodbye()
}

func (c *Core) sayGoodbye() {
	if c.stopping && c.stream.up {
		c.send(session.Up{Goodbye: &session.Goodbye{}})
	}
}
