package worker

import "time"

// While a worker is busy, every task that ends would be a journal transaction, a signature and a
// publication of its own, and for short tasks that costs more than the tasks. So statuses gather a
// little as long as nobody can be waiting for them: while other tasks live here. The end of the
// last one goes at once, and so does a whole batch. Where many end, they gather for longer: every
// batch is signed once and verified by all others, and the coordinator keeps enough queued here
// that no slot waits for it (CoreConfig.AheadWindow).
const (
	gatherEnds = 20 * time.Millisecond // an end waits at most so long, counted from the last batch
	gatherMany = 5 * gatherEnds / 2    // or so long, if there are several
	several    = 4
	gatherRuns = 5 * time.Millisecond   // that a task runs is said after so long, if it still does
	gatherTurn = 100 * time.Millisecond // that a task waits for its turn is said after so long, if it still does: it is queued ahead of need, and soon has more to say
	gatherFull = 256                    // statuses that go without waiting
)

// gathered tells whether the statuses that wait shall go now. If not, wake says when.
func (c *Core) gathered() bool {
	c.wake = time.Time{}
	if c.gather == 0 || len(c.dirty) == 0 || len(c.dirty) >= gatherFull || c.stopping {
		return true
	}
	due := c.dirtySince.Add(gatherRuns)
	switch n := c.endsWaiting(); {
	case n > 0 && c.live == 0:
		return true
	case n >= several:
		due = c.lastCut.Add(c.gather * gatherMany / gatherEnds)
	case n > 0:
		due = c.lastCut.Add(c.gather)
	}
	if !c.now.Before(due) {
		return true
	}
	c.wake = due
	return false
}

// endsWaiting counts the ends that wait to be said, up to several.
func (c *Core) endsWaiting() (n int) {
	for _, h := range c.dirty {
		if h.status.State.Final() {
			if n++; n == several {
				break
			}
		}
	}
	return n
}

// freshTask is a task that was accepted and whose turn has not come, and since when.
type freshTask struct {
	*heldTask
	at time.Time
}

// saidAt is when it is said that it waits.
func (c *Core) saidAt(f freshTask) time.Time {
	return f.at.Add(c.gather * (gatherTurn / gatherEnds))
}

// showQueued publishes Accepted for what was accepted and waits for its turn.
func (c *Core) showQueued() {
	for len(c.fresh) > 0 {
		f := c.fresh[0]
		if f.phase == phaseQueued {
			if c.now.Before(c.saidAt(f)) && !c.stopping {
				return
			}
			c.touch(f.heldTask)
		}
		c.fresh[0] = freshTask{}
		c.fresh = c.fresh[1:]
	}
	c.fresh = nil
}

// wakeForQueued sees to it that showQueued is called in time.
func (c *Core) wakeForQueued() {
	if len(c.fresh) == 0 {
		return
	}
	if at := c.saidAt(c.fresh[0]); c.wake.IsZero() || at.Before(c.wake) {
		c.wake = at
	}
}
