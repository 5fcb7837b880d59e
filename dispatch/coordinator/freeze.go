package coordinator

import (
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/freeze"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/taskstate"
)

// holdMost is how long a loss is not acted on while so many others are silent that a freeze may
// follow: who vanishes together is not missed in the same moment.
const holdMost = 2 * time.Second

// vanished tells whether p was here and gossip doubts or buries it, with no sign of life since. Who
// said goodbye has not vanished.
func (ps *peers) vanished(p *peerState) bool {
	f := ps.facts(p)
	return !p.member.Left && !p.never && !p.parted && (f.Verdict == verdict.Suspect || f.Verdict == verdict.Dead) && !(f.Session && f.Newer)
}

// reviewFreeze looks anew whether replacement is frozen, after anything it depends on may have
// changed.
func (ps *peers) reviewFreeze() {
	change, over := ps.guard.Review(
		func() ([]freeze.Vanished, int) { return ps.losses(ps.vanished) },
		func(id taskstate.PeerID) bool {
			p := ps.of(id)
			return p == nil || p.confirmedGone || !ps.vanished(p)
		}, ps.clock.Now())
	switch change {
	case freeze.Began:
		ps.cfg.Log.Warn("replacement is frozen", "why", ps.frozen().String())
	case freeze.Ended:
		ps.cfg.Log.Info("replacement goes on", "in", freeze.Settle)
	}
	if over {
		ps.clock.WakeAt(ps.clock.Now())
	}
}

// losses lists the peers that count as gone, and counts all others there are. Who is confirmed gone
// or said goodbye does not count at all.
func (ps *peers) losses(gone func(*peerState) bool) (lost []freeze.Vanished, others int) {
	for _, p := range ps.order {
		if !ps.vanished(p) {
			p.confirmedGone = false
		}
		if p.id == ps.cfg.Self || p.member.Left || p.confirmedGone || p.parted {
			continue
		}
		others++
		if gone(p) {
			lost = append(lost, freeze.Vanished{Peer: p.id, Since: p.since})
		}
	}
	return lost, others
}

// held tells until when what an unreachable peer has is not given to others although nothing is
// frozen: peers come back from a freeze, or so many others are silent beside it that this may be
// the beginning of one. Zero: it is not held.
func (ps *peers) held(p *peerState) time.Time {
	if until := ps.guard.Returning(ps.clock.Now()); !until.IsZero() {
		return until
	}
	until := p.lostSince.Add(holdMost)
	if !ps.clock.Now().Before(until) {
		return time.Time{}
	}
	lost, others := ps.losses(func(o *peerState) bool { return ps.vanished(o) || ps.silent(o) })
	for i, l := range lost {
		if !ps.vanished(ps.all[l.Peer]) {
			lost[i].Since = ps.clock.Now()
		}
	}
	if !freeze.Of(lost, others).Active() {
		return time.Time{}
	}
	return earlier(until, ps.clock.Now().Add(ps.cfg.Beat/4)) // who is silent may say something at any moment
}

// silent tells whether a peer that had a session in this epoch has none now, or says nothing in it.
func (ps *peers) silent(p *peerState) bool {
	if p.session == nil {
		return p.back
	}
	return ps.clock.Now().Sub(p.session.heard) > ps.cfg.Beat*3/2
}

// returning tells whether peers that come back from a freeze are waited for.
func (ps *peers) returning() bool { return !ps.guard.Returning(ps.clock.Now()).IsZero() }

func (ps *peers) frozen() freeze.State { return ps.guard.Frozen() }

// thaw takes a person's word that who has vanished is really gone. Until they are back they do not
// count any more.
func (ps *peers) thaw() {
	for _, p := range ps.order {
		p.confirmedGone = ps.vanished(p)
	}
	ps.guard.Doubt()
}

const (
	replaceBurst = 3               // peers whose tasks are given up at once, at least: a quarter of them all, if that is more
	replaceEvery = 5 * time.Second // until one more may be
)

// mayReplace tells whether attempts on an unreachable peer may be given up now. It costs a token
// per peer and outage, however many tasks it has: one peer lost is one loss. Where it says no, it
// sees to it that it is asked again.
func (ps *peers) mayReplace(p *peerState) bool {
	if ps.frozen().Active() {
		return false // its end wakes us
	}
	if until := ps.held(p); !until.IsZero() {
		ps.clock.WakeAt(until)
		return false
	}
	if p.charged {
		return true
	}
	ok, next := ps.guard.Spend(ps.clock.Now(), max(replaceBurst, len(ps.order)/4), replaceEvery)
	if !ok {
		ps.clock.WakeAt(next)
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
