package coordinator

import (
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// sickPatience is how long tasks wait for a peer that cannot take them on because its disk is full, read-only or stuck. Most such troubles
// pass.
const sickPatience = 10 * time.Second

// dueSick looks whether a peer has been in trouble for so long that what it has not taken on goes elsewhere.
func (c *Core) dueSick(p *peerState) {
	if p.offer.Trouble == "" || p.standing != Ready || !p.session.synced { // one that reads its journal will say what it has
		p.sickSince = time.Time{}
		return
	}
	if p.sickSince.IsZero() {
		p.sickSince = c.now
	}
	switch due := p.sickSince.Add(sickPatience); {
	case c.now.Before(due):
		c.wakeAt(due)
	default:
		c.replacing = c.replacing || p.hasUntaken()
		c.recallUnbegun(p)
	}
}

// recallUnbegun asks a peer in trouble for what it has accepted and not begun, and for what it may have and must not run twice: nobody
// but it knows how far it got. It answers at its word (worker/word.go).
func (c *Core) recallUnbegun(p *peerState) {
	for _, h := range p.byAge() {
		if h.job.cancelled {
			continue
		}
		idle := h.sorted(func(r rec) bool { return r.idle() && !h.untaken(r) })
		c.recallSlots(p, h, idle)
	}
}

// untaken tells whether a task was given to a peer and nothing of it was heard: a peer in trouble has not begun with it, for it journals
// first. One that must not run twice waits all the same: the peer may be getting well this very moment.
func (h *holding) untaken(r rec) bool {
	return r.state <= taskstate.Assigned && !r.is(ended|deciding|stopped) && !h.job.cancelled && !h.job.job.Unreachable.Wait
}

func (p *peerState) hasUntaken() bool {
	for _, h := range p.holds {
		for _, r := range h.slots {
			if h.untaken(r) {
				return true
			}
		}
	}
	return false
}

// cutUntaken gives up what peers in trouble have not taken on, as far as one proposal reaches.
func (c *Core) cutUntaken(cmds []ledger.Command, size int) ([]ledger.Command, int) {
	for _, p := range c.order {
		if p.sickSince.IsZero() || p.standing != Ready || c.now.Before(p.sickSince.Add(sickPatience)) {
			continue
		}
		for _, h := range p.byAge() {
			if cmds, size = c.giveUpSlots(h, h.sorted(h.untaken), taskstate.ReasonStuck, cmds, size); c.replacing {
				return cmds, size
			}
		}
	}
	return cmds, size
}
