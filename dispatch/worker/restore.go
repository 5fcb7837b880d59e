package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// restore rebuilds the core from the journal and returns the tasks that may have been started.
//
// What was begun – or may have been, by the mark – and has no end in the journal counts as started,
// until the runner says that it is not to be found. What was being saved is the runner's too, but
// its process has ended: it is not to run again. What was certainly not begun is parked until a
// Complete set confirms it: meanwhile the ledger may have given the slot to another peer, and
// starting it before asking would run it twice.
func (c *Core) restore(img *journal.Image) (begun []taskstate.Launch) {
	c.state = img.State
	c.begun, c.last = img.State.Begun, img.State.Last
	c.held.order = img.State.Begun
	for _, j := range img.Jobs {
		c.bodies.keep(j).onDisk = true
	}
	for _, t := range img.Tombs {
		c.tombs.add(t, true)
	}
	newest := c.held.order
	for _, r := range img.Frames {
		c.restoreFrame(r, img.Done[r.Number])
		newest = max(newest, c.held.order)
		c.frames.newest = max(c.frames.newest, r.Number)
	}
	c.held.order = newest
	c.restoreStatuses(img)
	for _, h := range c.held.living() {
		if notBegun(h.durable.State) && !h.job.instant() && h.order > c.begun || h.durable.State == taskstate.Preparing {
			h.phase = phaseParked
			continue
		}
		if h.lastSaid == anyBatch {
			c.outbox.touch(h, time.Time{})
		}
		if h.phase = phaseSaving; h.durable.State != taskstate.Saving {
			c.held.begin(h)
		}
		begun = append(begun, h.relaunch(c.self))
	}
	return begun
}

// notBegun reports whether no peer was told that a task's process has begun.
func notBegun(told taskstate.State) bool { return told < taskstate.Running }

// replayed goes on with the session that is open, if one is, as if it had just been opened: it
// reports, and then heeds what has come meanwhile.
func (c *Core) replayed() {
	c.replaying = false
	if c.stream.id == 0 {
		return
	}
	c.stream.stale = true // Hello said that there is nothing to give
	c.report()
	c.takeEarly()
}

// adopted ends what the runner could not take up: Orphaned, interrupted, its end was not observed.
// What it certainly never started, and nobody was told that it runs, has not begun after all.
func (c *Core) adopted(lost []taskstate.Loss) {
	for _, l := range lost {
		h := c.held.of[l.Task]
		switch {
		case h == nil || !h.phase.begun():
		case l.Never && notBegun(h.durable.State):
			c.held.leave(h, phaseParked)
		default:
			why := l.Message
			if why == "" {
				why = "its peer ended while it ran; its end was not observed"
			}
			c.finish(h, taskstate.Orphaned, taskstate.ReasonInterrupted, why)
		}
	}
	// The rest goes on. The batch that said so may be acknowledged and gone, and a peer that missed
	// it could not get it any more: say it again.
	for _, h := range c.held.living() {
		if h.phase.begun() && h.durable.Seq > 0 {
			c.outbox.touch(h, c.now)
		}
	}
	if c.replaying {
		c.replayed()
	}
}

// restoreFrame holds the tasks of a frame again, without those that are over and acknowledged.
func (c *Core) restoreFrame(r journal.Frame, done *journal.ImageDone) {
	f := &ownFrame{record: r}
	if done != nil {
		f.acks = done.Acks
	}
	c.held.order = r.Base - 1
	for _, g := range r.Grants {
		j := c.bodies.of[g.Body()]
		c.bodies.need(f, j) // as long as the record names it, done or not
		n := 0
		for id := range g.Tasks() {
			item := j.job.Item(id.Slot)
			if len(g.Items) > n {
				item = g.Items[n]
			}
			n++
			if done != nil && done.Positions[uint32(c.held.order+1-r.Base)] {
				c.held.order++
				continue
			}
			c.held.add(id, j, f, g.Index, item, time.UnixMilli(r.At)).forged = g.Forged
		}
	}
	if f.left > 0 {
		c.frames.of[r.Number] = f
	}
}

// anyBatch stands for the batch that tells a status of which the journal has only the status: it
// may be the first. Nothing may be retired until the status is told anew, or a peer that comes
// later would never learn of a task that goes on.
const anyBatch = 1

// restoreStatuses applies what was said before, in the order it was said.
func (c *Core) restoreStatuses(img *journal.Image) {
	for id, s := range img.Live {
		if h := c.held.of[id]; h != nil {
			h.onDisk = true
			c.held.restore(h, s, anyBatch)
			if s.State.Final() { // it was given again: see takeOn
				c.outbox.touch(h, time.Time{})
			}
		}
	}
	slices.SortFunc(img.Batches, func(a, b journal.ImageBatch) int { return cmp.Compare(a.Number, b.Number) })
	for _, b := range img.Batches {
		if b.Number <= c.state.Acked {
			continue
		}
		hb := &ownBatch{number: b.Number, envelope: b.Envelope}
		for _, s := range b.Statuses {
			if h := c.held.of[s.Task]; h != nil {
				c.held.restore(h, s, b.Number)
				hb.tasks = append(hb.tasks, h)
			}
		}
		c.outbox.unacked = append(c.outbox.unacked, hb)
	}
}

// restore gives a task the status that was said last, in batch number n.
func (ts *tasks) restore(h *ownTask, s taskstate.Status, n uint64) {
	h.status, h.waited = s, s.Waited
	h.said(s, n)
	if s.State.Final() {
		ts.leave(h, phaseOver)
	}
}
