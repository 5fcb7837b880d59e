package worker

import (
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// Tasks of a job with inputs, or with secrets, wait for these without a slot: others pass them.
// They are asked for once for all tasks of a job body, by Stage, and whoever brings them says with
// Staged how far they are.
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
func (j *ownJob) ready() bool { return j.staging == staged || !j.job.Prepares() }

// prepared tells whether a task may start as far as its inputs go.
func (h *ownTask) prepared() bool {
	return h.job.ready() && (h.status.State < taskstate.Preparing || h.durable.State >= taskstate.Ready)
}

// tellInputs tells that a task that was accepted waits for its inputs, and how far they are; or, if
// that was told, that it does not any more.
func (c *Core) tellInputs(h *ownTask) {
	s := h.status
	switch ready := h.job.ready(); {
	case h.phase != phaseQueued || s.State > taskstate.Preparing || ready && s.State < taskstate.Preparing:
		return
	case ready:
		s.State, s.At, s.Message = taskstate.Ready, c.now.UnixMilli(), ""
	case s.State == taskstate.Preparing && s.Message == h.job.message:
		return
	case s.State < taskstate.Preparing:
		s.State, s.At = taskstate.Preparing, c.now.UnixMilli()
		fallthrough
	default:
		s.Message = h.job.message
	}
	c.advance(h, s)
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
				c.tellInputs(h)
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
					c.tellInputs(h)
				}
			}
		}
	}
}
