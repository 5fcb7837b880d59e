package dispatch

import (
	"fmt"

	"covey/taskstate"
)

// changeOffer takes a new description of this peer: what runs goes on, what waits and can never fit any more goes back. It would
// wait for ever, and all behind it.
func (c *workerCore) changeOffer(o Offer) {
	c.offer = o
	for _, h := range c.living() {
		if (h.phase == phaseQueued || h.phase == phaseGranted) && c.tooLarge(h) {
			c.rejectLarge(h)
		}
	}
	c.sendOffer()
}

// tooLarge tells whether a task needs more than this peer offers at all.
func (c *workerCore) tooLarge(h *heldTask) bool { return !h.job.job.Resources.Fits(c.offer.Resources) }

func (c *workerCore) rejectLarge(h *heldTask) {
	c.finish(h, taskstate.Rejected, taskstate.ReasonRecalled, fmt.Sprintf("it needs %+v, this peer offers %+v", h.job.job.Resources, c.offer.Resources))
}
