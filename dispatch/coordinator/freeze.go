package coordinator

import (
	"time"

	"covey/dispatch/coordinator/freeze"
	"covey/taskstate"
)

// holdMost is how long a loss is not acted on while so many others are silent that a freeze may
// follow: who vanishes together is not missed in the same moment.
const holdMost = 2 * time.Second

// vanished tells whether p was here and gossip doubts or buries it, with no sign of life since. Who
// said goodbye has not vanished.
func (c *Core) vanished(p *peerState) bool {
	f := c.facts(p)
	return !p.left && !p.never && !p.parted && (f.Verdict == VerdictSuspect || f.Verdict == VerdictDead) && !(f.Session && f.Newer)
}

// reviewFreeze looks anew whether replacement is frozen, after anything it depends on may have
// changed.
func (c *Core) reviewFreeze() {
	change, over := c.guard.Review(
		func() ([]freeze.Loss, int) { return c.losses(c.vanished) },
		func(id taskstate.PeerID) bool {
			p := c.peers[id]
			return p == nil || p.excused || !c.vanished(p)
		}, c.now)
	switch change {
	case freeze.Began:
		c.cfg.Log.Warn("replacement is frozen", "why", c.Frozen().String())
	case freeze.Ended:
		c.cfg.Log.Info("replacement goes on", "in", freeze.Settle)
	}
	if over {
		c.wakeAt(c.now)
	}
}

// losses lists the peers that count as gone, and counts all others there are. Who is excused or
// said goodbye does not count at all.
func (c *Core) losses(gone func(*peerState) bool) (lost []freeze.Loss, others int) {
	for _, p := range c.order {
		if !c.vanished(p) {
			p.excused = false
		}
		if p.id == c.cfg.Self || p.left || p.excused || p.parted {
			continue
		}
		others++
		if gone(p) {
			lost = append(lost, freeze.Loss{Peer: p.id, Since: p.since})
		}
	}
	return lost, others
}

// held tells until when what an unreachable peer has is not given to others although nothing is
// frozen: peers come back from a freeze, or so many others are silent beside it that this may be
// the beginning of one. Zero: it is not held.
func (c *Core) held(p *peerState) time.Time {
	if until := c.guard.Returning(c.now); !until.IsZero() {
		return until
	}
	until := p.lostSince.Add(holdMost)
	if !c.now.Before(until) {
		return time.Time{}
	}
	lost, others := c.losses(func(o *peerState) bool { return c.vanished(o) || c.silent(o) })
	for i, l := range lost {
		if !c.vanished(c.peers[l.Peer]) {
			lost[i].Since = c.now
		}
	}
	if !freeze.Of(lost, others).Active() {
		return time.Time{}
	}
	return earlier(until, c.now.Add(c.cfg.Beat/4)) // who is silent may say something at any moment
}

// silent tells whether a peer that had a session in this epoch has none now, or says nothing in it.
func (c *Core) silent(p *peerState) bool {
	if p.session == nil {
		return p.back
	}
	return c.now.Sub(p.session.heard) > c.cfg.Beat*3/2
}

// Frozen tells whether and why nothing is replaced.
func (c *Core) Frozen() freeze.State { return c.guard.Frozen() }

// thaw takes a person's word that who has vanished is really gone. Until they are back they do not
// count any more.
func (c *Core) thaw() {
	for _, p := range c.order {
		p.excused = c.vanished(p)
	}
	c.guard.Doubt()
}

// mayReplace tells whether attempts on an unreachable peer may be given up now. It costs a token
// per peer and outage, however many tasks it has: one peer lost is one loss. Where it says no, it
// sees to it that it is asked again.
func (c *Core) mayReplace(p *peerState) bool {
	if c.Frozen().Active() {
		return false // its end wakes us
	}
	if until := c.held(p); !until.IsZero() {
		c.wakeAt(until)
		return false
	}
	if p.charged {
		return true
	}
	ok, next := c.guard.Spend(c.now, max(c.cfg.ReplaceBurst, len(c.order)/4), c.cfg.ReplaceEvery)
	if !ok {
		c.wakeAt(next)
	}
	p.charged = ok
	return ok
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
