package worker

import (
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// A worker whose disk is full, read-only or stuck can journal no end, and so tell none. What it has
// not begun must not wait for that disk: it gives such tasks back at its word. It never starts them
// in this life; and should it end before the disk knows, then they are in its journal as not begun
// at most, and such tasks are started only when a Complete set confirms them, which does not list
// what was given back. That holds among coordinators of epochs that the disk has heard of. Work
// that must not run twice is given back to those only.

// giveBackAtWord says of tasks that ended without having begun that they never will, while the disk
// does not take their end.
func (c *Core) giveBackAtWord() {
	if c.sick == nil || !c.stream.up {
		return
	}
	var back []taskstate.TaskID
	for _, h := range c.held.all() {
		if h.phase != phaseOver || !h.unbegun || h.end > 0 || h.atWord || !c.fenced && h.job.job.Unreachable.Wait {
			continue
		}
		h.atWord = true
		back = append(back, h.id)
	}
	c.sayDropped(back)
}

// early looks at a command that waits for its epoch to be on disk: while the disk takes nothing,
// tasks it wants back are given back all the same.
func (c *Core) early(d *session.Down) {
	if c.sick == nil || d.Assignments == nil {
		return
	}
	for _, id := range d.Assignments.Recall {
		if h := c.held.of[id]; h != nil && !h.job.job.Unreachable.Wait {
			c.recall(h)
		}
	}
	c.giveBackAtWord()
}

func (c *Core) setSick(err error) {
	was := c.sick
	c.sick = err
	if (was == nil) != (err == nil) || was != nil && was.Error() != err.Error() {
		c.sendOffer()
	}
	for _, d := range c.stream.early {
		c.early(d)
	}
	c.giveBackAtWord()
}
