package worker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// changeOffer takes a new description of this peer: what runs goes on, what waits and can never fit
// any more goes back. It would wait for ever, and all behind it.
func (c *Core) changeOffer(o session.Offer) {
	c.offer = o
	for _, h := range c.held.living() {
		if h.phase == phaseQueued || h.phase == phaseGranted {
			c.turnAway(h)
		}
	}
	c.sendOffer()
}

// troubled is why a worker takes nothing on, as its offer says it.
func troubled(err error) string { return taskstate.ClipText(err.Error(), session.MaxTrouble) }

// Coded is an error that programs are to know by a code: why a worker takes nothing on, as
// api.Trouble has it.
type Coded interface {
	error
	Code() string
}

// codeOf is the code of an error, "" if it has none.
func codeOf(err error) string {
	if c, ok := errors.AsType[Coded](err); ok {
		return c.Code()
	}
	return ""
}

// refrains are the reasons for which a worker takes nothing on. Safe for concurrent use.
type refrains struct {
	mu sync.Mutex
	of map[string]error
}

// set notes a reason, or takes it back.
func (r *refrains) set(reason string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.of, reason)
		return
	}
	if r.of == nil {
		r.of = map[string]error{}
	}
	r.of[reason] = err
}

func (r *refrains) first() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(r.of)) {
		return r.of[reason]
	}
	return nil
}

// setRefrain gives back what has not begun when the reason comes up, so that it need not wait for
// this peer; what is granted while it lasts follows (takeOn, endComplete).
func (c *Core) setRefrain(err error) {
	was := c.refuses()
	c.refrain = err
	c.refusalChanged(was)
}

// refuses is why nothing is taken on; nil: something is.
func (c *Core) refuses() error {
	if c.refrain == nil && c.exhaustion.resting(c.now) {
		return c.exhaustion.why
	}
	return c.refrain
}

// refusalChanged acts on a change of what refuses answers.
func (c *Core) refusalChanged(was error) {
	err := c.refuses()
	if (was == nil) != (err == nil) || was != nil && was.Error() != err.Error() {
		c.sendOffer()
	}
	if err == nil || was != nil {
		return
	}
	for _, h := range c.held.living() {
		if !h.phase.begun() {
			c.turnAway(h)
		}
	}
}

// ErrReplaying is why a worker takes no tasks while it reads its journal.
var ErrReplaying = errors.New("it reads its journal after a restart, and takes tasks when it knows again what it had")

// sendOffer tells the coordinator what there is to give.
func (c *Core) sendOffer() {
	if !c.stream.up {
		c.stream.stale = true
		return
	}
	o := c.offered()
	c.send(session.Up{Offer: &o})
}

// offered is nothing while nothing can be accepted.
func (c *Core) offered() session.Offer {
	o, why := c.given(), c.refuses()
	if c.sick != nil || why != nil || c.stopping || c.replaying {
		o.Resources = taskstate.Resources{}
	}
	switch {
	case c.replaying:
		o.Trouble = troubled(ErrReplaying)
	case c.sick != nil:
		o.Trouble, o.TroubleCode = troubled(c.sick), codeOf(c.sick)
	case why != nil:
		o.Trouble, o.TroubleCode = troubled(why), codeOf(why)
	}
	return o
}

// turnAway gives back a task that was not started and must not be, so that another peer gets its
// slot at once, and tells whether that is so.
func (c *Core) turnAway(h *ownTask) bool {
	why, offer := c.refuses(), c.given().Resources
	switch {
	case c.stopping:
		c.finish(h, taskstate.Rejected, taskstate.ReasonInterrupted, "its peer stopped before it started")
	case why != nil:
		c.finish(h, taskstate.Rejected, taskstate.ReasonRecalled, troubled(why))
	case !h.job.job.Resources.Fits(offer):
		c.finish(h, taskstate.Rejected, taskstate.ReasonRecalled, fmt.Sprintf("it needs %+v, this peer offers %+v", h.job.job.Resources, offer))
	default:
		return false
	}
	return true
}
