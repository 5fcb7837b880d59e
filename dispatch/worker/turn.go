package worker

import "covey/taskstate"

// maxPassed is how many waiting tasks are looked past for one that could start.
const maxPassed = 64

// turns says, task by task in the order of the queue, which of them may start now. What is free is
// kept for the first one that does not fit: those behind it may have what it leaves over – a task
// that waits for the last licence is no reason to leave cpus idle – and never anything that would
// make it wait longer. So everyone gets to the front, and starts there.
type turns struct {
	free   taskstate.Resources
	first  *heldTask // that does not fit
	waited int       // how many do not fit
}

func (c *Core) turns() turns {
	return turns{free: c.offer.Resources.Sub(c.used)}
}

// take tells whether a task may start, and keeps what it needs for it if so, or if it is the first
// that has to wait.
func (t *turns) take(h *heldTask) bool {
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

// startQueued starts those whose turn it is.
func (c *Core) startQueued() {
	if c.stopping {
		return
	}
	t, kept, i := c.turns(), 0, 0
	for ; i < len(c.queue) && t.waited < maxPassed; i++ {
		h := c.queue[i]
		if h.phase == phaseGranted || h.phase == phaseQueued && h.order > c.begun {
			break // nor is what comes behind it on disk
		}
		switch {
		case h.phase != phaseQueued: // it was taken back, or stopped
		case t.take(h):
			c.start(h)
		default:
			c.queue[kept] = h
			kept++
		}
	}
	c.dequeue(kept, i)
}

// dequeue takes out what stands from place kept to place next.
func (c *Core) dequeue(kept, next int) {
	switch {
	case kept == next:
		return
	case kept == 0: // all of it was at the front
		clear(c.queue[:next])
		c.queue = c.queue[next:]
	default:
		n := kept + copy(c.queue[kept:], c.queue[next:])
		clear(c.queue[n:])
		c.queue = c.queue[:n]
	}
	if len(c.queue) == 0 {
		c.queue = nil
	}
}

// begunMark is how far the mark "may have been started" should reach: over what may start now, and
// some way ahead, so that a slot seldom waits for the disk. After a crash, marked tasks count as
// begun; work that must not run twice is marked only when it may start.
func (c *Core) begunMark() (mark uint64, needed bool) {
	mark = c.begun
	ahead, t := max(minBegunAhead, 2*c.runs), c.turns()
	for i, h := range c.queue {
		if i == ahead {
			break
		}
		if h.phase != phaseQueued && h.phase != phaseGranted {
			continue
		}
		fits := t.take(h)
		if h.job.job.Unreachable.Wait && !fits {
			break
		}
		if fits && h.order > c.begun && h.phase == phaseQueued {
			needed = true
		}
		mark = max(mark, h.order)
	}
	return mark, needed
}
