package worker

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"covey/dispatch/session"
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
func troubled(err error) string {
	s := strings.ToValidUTF8(err.Error(), "?")
	for len(s) > session.MaxTrouble {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

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

// Refrain: this worker is to take nothing on, for a reason that is not its journal's (nil: it may
// again).
type Refrain struct{ Err error }

func (Refrain) isEvent() {}

// Refrain has the worker take nothing on and give back what it has not begun, until it is called
// with nil for the same reason. What runs goes on. The error is what others are told; see Coded.
// Never blocks.
func (w *Loop) Refrain(reason string, err error) {
	w.refrains.set(reason, err)
	w.refrained.Set()
}

// refrain is what the core is told: the first of the reasons.
func (w *Loop) refrain() Refrain { return Refrain{w.refrains.first()} }

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
	was := c.refrain
	c.refrain = err
	if (was == nil) != (err == nil) || was != nil && was.Error() != err.Error() {
		c.sendOffer()
	}
	if err == nil || was != nil {
		return
	}
	for _, h := range c.held.living() {
		if h.phase != phaseStarted {
			c.turnAway(h)
		}
	}
}
