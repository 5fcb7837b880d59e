package worker

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// accept is called when a task's assignment is on disk.
func (c *Core) accept(h *ownTask) {
	switch {
	case h.phase != phaseGranted:
	case h.job.instant() && !c.stopping:
		c.start(h)
	default:
		c.accepted(h)
	}
}

// accepted puts a task among those whose turn has not come, and has its inputs brought here.
func (c *Core) accepted(h *ownTask) {
	c.queue.accepted(h, c.now.Add(c.outbox.gather*(gatherTurn/gatherEnds)))
	if h.job.staging == notAsked && !h.job.ready() {
		h.job.staging = asked
		c.do(Stage{h.job.job})
	}
	if h.job.ready() || h.job.job.Unreachable.Wait {
		c.tellInputs(h) // of the latter now: nothing behind it passes before the disk knows
	}
}

// serveQueue starts those whose turn it is, and says Accepted of what has waited for a while.
func (c *Core) serveQueue() {
	if !c.stopping {
		for _, h := range c.queue.next(c.held.free(c.given()), c.begun) {
			c.start(h)
		}
	}
	for _, h := range c.queue.overdue(c.now, c.stopping) {
		if !h.job.ready() {
			c.tellInputs(h)
		}
		c.outbox.touch(h, c.now)
	}
}

func (c *Core) start(h *ownTask) {
	h.waited = max(0, c.now.Sub(h.since).Milliseconds())
	c.held.begin(h)
	c.do(Start{h.launch(c.self)})
}

// ran takes in what the runner reports.
func (c *Core) ran(reports []taskstate.RunReport) {
	for _, r := range reports {
		h := c.held.of[r.Task]
		if h == nil || !h.phase.begun() || !r.State.Valid() || r.State <= taskstate.Accepted {
			continue
		}
		s := h.status
		s.State, s.At, s.Exit, s.Signal, s.Reason, s.Message = r.State, r.At, r.Exit, r.Signal, r.Reason, r.Message
		s.Took, s.Truncated, s.Saved, s.Held = max(0, r.Took), r.Truncated, r.Saved, r.Held
		if s.At == 0 {
			s.At = c.now.UnixMilli()
		}
		switch {
		case r.State.Final():
			c.over(h, s)
			if r.Exhausted != "" {
				c.exhausted(r.Exhausted)
			}
		case r.State == taskstate.Starting && r.State == h.status.State:
			if s.At = h.status.At; s.Message != h.status.Message {
				c.advance(h, s)
			}
		case r.State > h.status.State:
			if s.Saved = nil; r.State == taskstate.Saving {
				c.held.leave(h, phaseSaving)
			}
			c.advance(h, s)
		}
	}
}

// maxReason caps a reason in bytes.
const maxReason = 64

// advance gives a task its next status.
func (c *Core) advance(h *ownTask, s taskstate.Status) {
	s.Seq, s.Waited = h.status.Seq+1, h.waited
	s.Message = taskstate.ClipText(s.Message, taskstate.MaxMessage)
	s.Reason = taskstate.Reason(taskstate.ClipText(string(s.Reason), maxReason))
	s.Saved = s.Saved.Clip()
	h.status = s
	c.outbox.touch(h, c.now)
}

// over ends a task.
func (c *Core) over(h *ownTask, s taskstate.Status) {
	c.held.leave(h, phaseOver)
	c.advance(h, s)
}

// finish ends a task that was not started.
func (c *Core) finish(h *ownTask, state taskstate.State, why taskstate.Reason, message string) {
	h.unbegun = !h.phase.begun()
	s := h.status
	s.State, s.At, s.Exit, s.Signal, s.Reason, s.Message = state, c.now.UnixMilli(), taskstate.NoExit, 0, why, message
	c.over(h, s)
}

// stop ends a task by order: a started one through the runner, others at once.
func (c *Core) stop(h *ownTask, why taskstate.Reason) {
	switch {
	case h.phase == phaseOver || h.halted:
	case h.phase.begun():
		h.halted = true
		c.do(Halt{session.Stop{Task: h.id, Reason: why}})
	default:
		c.finish(h, taskstate.Shutdown, why, "stopped before it started")
	}
}

// recall gives a task back if it has not started.
func (c *Core) recall(h *ownTask) {
	if !h.phase.begun() && h.phase != phaseOver {
		c.finish(h, taskstate.Rejected, taskstate.ReasonRecalled, "")
	}
}

// acked forgets the tasks and batches up to number n.
func (c *Core) acked(n uint64) {
	n = min(n, c.last)
	if n <= c.state.Acked {
		return
	}
	c.state.Acked = n
	for _, b := range c.outbox.acked(n) {
		c.tidy.signed = append(c.tidy.signed, b.number)
		for _, h := range b.tasks {
			c.ackedTask(h)
		}
	}
}

// Retirable is the number up to which batches say nothing that matters still: acknowledged, and no
// task that goes on has its newest status there. Others that were away get those statuses from the
// batches above it. It is 0 when it is not worth looking yet.
func (c *Core) Retirable() uint64 { return c.outbox.retirable(c.state.Acked, c.held.of) }

func (c *Core) ackedTask(h *ownTask) {
	switch {
	case c.held.of[h.id] != h: // forgotten with a batch before this
	case h.end > 0 && h.end <= c.state.Acked:
		c.forget(h)
	case h.end > 0: // its end is in a later batch
	default: // it goes on: the journal must remember that it was begun when the batch is gone
		s := h.durable
		h.onDisk = true
		c.tidy.note(h.id, &s)
	}
}

// forget ends our memory of a task.
func (c *Core) forget(h *ownTask) {
	delete(c.held.of, h.id)
	c.ends.add(h.durable)
	if h.onDisk {
		c.tidy.note(h.id, nil)
	}
	c.tidy.done(h)
	if f := h.frame; f.left == 0 {
		delete(c.frames.of, f.record.Number)
		c.bodies.release(f)
	}
}

// drop buries tasks that are not here and never will be. The coordinator hears of it when that is
// on disk.
func (c *Core) drop(ids []taskstate.TaskID) {
	known, gone := c.tombs.bury(ids)
	c.tidy.tombs = append(c.tidy.tombs, gone...)
	c.sendDropped(known)
}

// maxDropped bounds the tasks in one Dropped frame.
const maxDropped = 10_000

// sendDropped says that these tasks will never run here.
func (c *Core) sendDropped(ids []taskstate.TaskID) {
	if !c.stream.up {
		return
	}
	c.sayDropped(slices.DeleteFunc(ids, func(id taskstate.TaskID) bool { return !c.tombs.of[id].onDisk }))
}

func (c *Core) sayDropped(ids []taskstate.TaskID) {
	for part := range slices.Chunk(ids, maxDropped) {
		c.send(session.Up{Dropped: &session.Dropped{Tasks: part}})
	}
}
