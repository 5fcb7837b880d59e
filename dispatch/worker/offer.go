package worker

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"covey/dispatch/session"
	"covey/taskstate"
)

// changeOffer takes a new description of this peer: what runs goes on, what waits and can never fit any more goes back. It would
// wait for ever, and all behind it.
func (c *Core) changeOffer(o session.Offer) {
	c.offer = o
	for _, h := range c.living() {
		if (h.phase == phaseQueued || h.phase == phaseGranted) && c.tooLarge(h) {
			c.rejectLarge(h)
		}
	}
	c.sendOffer()
}

// tooLarge tells whether a task needs more than this peer offers at all.
func (c *Core) tooLarge(h *heldTask) bool { return !h.job.job.Resources.Fits(c.offer.Resources) }

func (c *Core) rejectLarge(h *heldTask) {
	c.finish(h, taskstate.Rejected, taskstate.ReasonRecalled, fmt.Sprintf("it needs %+v, this peer offers %+v", h.job.job.Resources, c.offer.Resources))
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

// Coded is an error that programs are to know by a code: why a worker takes nothing on, as api.Trouble has it.
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
