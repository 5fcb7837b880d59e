package worker

import (
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
)

// flush sends one transaction on its way when there is something to write and none is under way.
// Statuses wait for the last publication as well, and so gather into batches.
func (c *Core) flush() {
	c.wake = time.Time{} // while the disk is at work nothing is due: that it has done it is an event
	if c.saving != nil || c.lost != "" {
		return
	}
	mark, wanted := c.queue.mark(c.held.free(c.given()), c.begun, max(minBegunAhead, 2*c.held.runs))
	needed := wanted || !c.fenced || len(c.frames.fresh) > 0 || len(c.tombs.fresh) > 0 || c.tidy.size() >= lazyTidy ||
		(c.stopping && c.tidy.size() > 0)
	t := &journal.Txn{}
	if !c.outbox.publishing {
		c.batch(t)
	}
	if !needed && len(t.Batches) == 0 {
		c.wake = sooner(c.wake, c.queue.wake())
		return
	}
	c.wake = time.Time{}
	c.state.Begun = mark
	c.frames.write(t)
	t.Tombs = c.tombs.unwritten()
	c.tidy.write(t, c.state.Acked)
	c.bodies.trim(maxIdleJobs, maxIdleBytes)
	t.State = c.state
	c.saving = t
	c.do(Save{t})
}

// batch makes batches of what is to be said now, and otherwise sees to it that it is asked again.
func (c *Core) batch(t *journal.Txn) {
	if at, due := c.outbox.due(c.now, c.held.live); !due && !c.stopping {
		c.wake = at
		return
	}
	at, may := c.signing.may(c.now, c.state.Last, c.stopping)
	switch {
	case may:
		c.state.Last = c.outbox.batch(t, c.state.Last, c.now)
	case len(c.outbox.dirty) > 0:
		c.wake = at
	}
}

// sooner is the earlier of two times of which a zero one is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// saved is called when the transaction under way is on disk: only now do its assignments count as
// accepted, its statuses as said, its epoch as obeyed.
func (c *Core) saved() {
	t := c.saving
	if t == nil {
		return
	}
	c.saving = nil
	if c.lost != "" {
		return // it was on its way before that was known: nobody hears of it
	}
	c.begun, c.last = t.State.Begun, t.State.Last
	for _, h := range c.frames.saved() {
		c.accept(h)
	}
	if envelopes, ended := c.outbox.saved(); len(envelopes) > 0 {
		if c.stream.up {
			for _, e := range envelopes {
				c.send(session.Up{Batch: e})
			}
		}
		c.do(Publish{envelopes})
		if len(ended) > 0 {
			c.do(Kept{ended})
		}
	}
	c.sendDropped(c.tombs.written(t.Tombs))
	if !c.fenced && t.State.Fence == c.state.Fence {
		c.fenced = true
		c.takeEarly()
	}
}
