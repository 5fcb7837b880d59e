package worker

import (
	"bytes"
	"fmt"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// A worker's journal may be gone, damaged, or older than what others saw of it: a file was deleted,
// a backup was put back. What it says, and what it does not say, is worth nothing then: tasks that
// it does not know may have run, and numbers that it would use were used. So the worker ends that
// incarnation – it stops what runs, signs nothing more – and begins another, with a journal of its
// own. The coordinator learns of that by its Hello, and the ledger gives the old one's tasks up,
// each by its job's rule.
//
// An ordinary crash does not look like that: a batch is on disk before anybody gets it.

// lose ends this incarnation: nothing is taken on, said or written any more, and what runs is
// stopped.
func (c *Core) lose(why string) {
	if c.lost != "" {
		return
	}
	c.lost, c.stopping = why, true
	for _, h := range c.held.living() {
		if h.phase.begun() {
			c.stop(h, taskstate.ReasonInterrupted)
		}
	}
	c.hangUp("this worker begins a new incarnation: "+why, true)
}

// Renounced tells whether the incarnation is over, and why: nothing of it runs any more.
func (c *Core) Renounced() (why string, over bool) {
	return c.lost, c.lost != "" && !c.replaying && c.held.runs == 0 && c.saving == nil
}

// outrun says in which way others know more about this incarnation than the journal does, "" if
// they do not.
func (c *Core) outrun(w *session.Welcome) string {
	if w.Highest > c.state.Last {
		return fmt.Sprintf("it ends with batch %d of statuses, and others have batch %d", c.state.Last, w.Highest)
	}
	for _, b := range c.outbox.unacked {
		if b.number == w.Highest && len(w.Sum) > 0 && !bytes.Equal(w.Sum, session.EnvelopeSum(b.envelope)) {
			return fmt.Sprintf("it has another batch %d of statuses than others have", b.number)
		}
	}
	for _, g := range w.Heard {
		for t := range g.Tasks() {
			if c.held.of[t] == nil && !c.tombs.has(t) {
				return fmt.Sprintf("it does not know task %s, which it reported to others before", t)
			}
		}
	}
	return ""
}

// seen is what others hold of this incarnation, signed by this peer. Number is above all numbers if
// a batch differs from ours.
func (c *Core) seen(inc taskstate.Incarnation, number uint64) {
	switch {
	case inc != c.inc || number <= c.state.Last:
	case number == OtherBatch:
		c.lose("others have another batch of statuses under a number it has used")
	default:
		c.lose(fmt.Sprintf("it ends with batch %d of statuses, and others have batch %d", c.state.Last, number))
	}
}

const OtherBatch = 1<<64 - 1
