package worker

import (
	"covey/dispatch/session"
	"covey/taskstate"
)

// Tasks of a job with inputs wait for these without a slot: others pass them. The inputs are asked
// for once for all tasks of a job body, by Stage, and whoever brings them says with Staged how far
// they are.
//
// That a task is being prepared is told, and promises more than it says: a task whose newest status
// on disk is Preparing has not begun, whatever the mark says. So once it was told, it starts only
// when Ready is on disk as well. Without that, work that must not run twice would have to stop all
// that is behind it from passing: the mark would count it as begun.

// StageReport is how far the inputs of a job are here.
type StageReport struct {
	Job     taskstate.JobID
	Version int
	Here    bool   // all of them: its tasks may start, until a grant of the job needs its body anew
	NoRoom  bool   // there is no room for them: its tasks are given back
	Message string // for people: how far they are, or what is in the way
}

// Stager brings the inputs of jobs here.
type Stager interface {
	// Stage begins to bring the inputs of a job here, if nobody does, and returns at once. How far
	// it is is told with Loop.Staged: in the end that they are here, or that there is no room. It
	// is asked again when that has been told.
	Stage(*taskstate.Job)
}

// staging is how far a job's inputs are here.
type staging uint8

const (
	notAsked staging = iota
	asked
	staged
)

// ready tells whether tasks of the job have what they need.
func (j *heldJob) ready() bool { return j.staging == staged || len(j.job.Inputs) == 0 }

// prepared tells whether a task may start as far as its inputs go.
func (h *heldTask) prepared() bool {
	return h.job.ready() && (h.status.State < taskstate.Preparing || h.durable.State == taskstate.Ready)
}

// bring has a task's inputs brought here, if they are not.
func (c *Core) bring(h *heldTask) {
	if h.job.ready() {
		c.readied(h)
		return
	}
	if h.job.staging == notAsked {
		h.job.staging = asked
		c.do(Stage{h.job.job})
	}
	if h.job.job.Unreachable.Wait {
		c.preparing(h) // nothing behind it passes before the disk knows
	}
}

// preparing tells that a task waits for its inputs, and how far they are.
func (c *Core) preparing(h *heldTask) {
	if h.phase != phaseQueued || h.status.State > taskstate.Preparing {
		return
	}
	s := h.status
	if s.State != taskstate.Preparing {
		s.State, s.At = taskstate.Preparing, c.now.UnixMilli()
	}
	s.Message = h.job.message
	if s.State != h.status.State || s.Message != h.status.Message {
		c.advance(h, s)
	}
}

// readied tells of a task that was being prepared that it is not any more.
func (c *Core) readied(h *heldTask) {
	if h.phase == phaseQueued && h.status.State == taskstate.Preparing {
		s := h.status
		s.State, s.At, s.Message = taskstate.Ready, c.now.UnixMilli(), ""
		c.advance(h, s)
	}
}

// maxProgress bounds the tasks of a job of which it is told how far their inputs are.
const maxProgress = 64

// onStaged takes in how far the inputs of jobs are.
func (c *Core) onStaged(reports []StageReport) {
	for _, r := range reports {
		j := c.bodies.of[session.BodyOf(&taskstate.Job{ID: r.Job, Version: r.Version})]
		if j == nil || j.staging != asked {
			continue
		}
		j.message = taskstate.ClipText(r.Message, taskstate.MaxMessage)
		switch {
		case r.Here:
			j.staging, j.message = staged, ""
			for h := range c.queue.of(j) {
				c.readied(h)
			}
		case r.NoRoom:
			j.staging, j.message = notAsked, ""
			for h := range c.queue.of(j) {
				c.finish(h, taskstate.Rejected, taskstate.ReasonNoRoom, r.Message)
			}
		default:
			n := 0
			for h := range c.queue.of(j) {
				if n++; n > maxProgress {
					break
				}
				if h.status.State == taskstate.Preparing {
					c.preparing(h)
				}
			}
		}
	}
}
