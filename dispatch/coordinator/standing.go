package coordinator

import "time"

// Standing is how the coordinator sees a peer. It is derived, never stored: from the ledger (left),
// the session and the verdict of gossip.
type Standing string

// The standings. Only a ready peer gets new tasks; only an unreachable one loses those it has.
const (
	Ready       Standing = "ready"       // alive, session up
	Suspect     Standing = "suspect"     // gossip doubts it
	Detached    Standing = "detached"    // alive by gossip, no session
	Unreachable Standing = "unreachable" // dead by gossip and no session
	Left        Standing = "left"        // said goodbye; a decision, in the ledger
	Unknown     Standing = "unknown"     // after an election, until it is back or really gone
)

// Verdict is what gossip says about a peer.
type Verdict uint8

// The verdicts. VerdictNone means that gossip here has never heard of the peer.
const (
	VerdictNone Verdict = iota
	VerdictAlive
	VerdictSuspect
	VerdictDead
)

// String names the verdict.
func (v Verdict) String() string {
	return [...]string{"none", "alive", "suspect", "dead"}[min(v, VerdictDead)]
}

// Facts are what a standing is derived from.
type Facts struct {
	Left       bool
	Session    bool    // a session is up
	Newer      bool    // that session began, or was last heard, after the verdict
	Back       bool    // it had a session in this epoch
	Verdict    Verdict // of this coordinator's own view
	Unanswered bool    // the coordinator's own dial failed, and no sign of life came since
	Settled    bool    // twice the grace has passed since the epoch began
}

// StandingOf derives a peer's standing.
func StandingOf(f Facts) Standing {
	doubted := f.Verdict == VerdictSuspect || f.Verdict == VerdictDead
	gone := f.Verdict == VerdictDead && f.Unanswered
	switch {
	case f.Left:
		return Left
	case f.Session && doubted && !f.Newer:
		return Suspect
	case f.Session:
		return Ready
	case !f.Back && !f.Settled && !gone:
		return Unknown
	case f.Verdict == VerdictDead:
		return Unreachable
	case f.Verdict == VerdictNone && f.Settled && f.Unanswered:
		return Unreachable // gossip never heard of it since this peer started, and neither does it answer
	case f.Verdict == VerdictSuspect:
		return Suspect
	}
	return Detached
}

func (ps *peers) facts(p *peerState) Facts {
	f := Facts{
		Left: p.member.Left, Back: p.back, Verdict: p.verdict, Unanswered: p.unanswered,
		Settled: !ps.clock.Now().Before(ps.settledAt),
	}
	if s := p.session; s != nil && s.welcomed {
		f.Session, f.Newer = true, s.opened.After(p.since) || s.heard.After(p.since)
	}
	return f
}

// heardFrom notes a sign of life on a session. What its own worker says outranks what gossip said
// before it.
func (ps *peers) heardFrom(s *workerSession) {
	s.heard = ps.clock.Now()
	if p := s.p; p.session == s && (p.verdict == VerdictSuspect || p.verdict == VerdictDead) && p.standing == Suspect {
		ps.review(p)
	}
}

// review derives p's standing anew, after anything it depends on may have changed.
func (ps *peers) review(p *peerState) {
	ps.guard.Doubt()
	was := p.standing
	p.standing = StandingOf(ps.facts(p))
	if ps.wantsProbe(p) && p.probeAt.IsZero() {
		p.probeAt = ps.clock.Now()
		ps.clock.WakeAt(ps.clock.Now())
	}
	if p.standing == was {
		return
	}
	ps.agenda.changed()
	ps.agenda.place()
	p.lostSince, p.charged = ps.unreachableSince(p), false
	ps.clock.WakeAt(ps.clock.Now())
	ps.cfg.Log.Debug("standing", "peer", p.id, "was", was, "is", p.standing)
}

// unreachableSince is the moment replacement counts from: the verdict, or the failed dial where
// gossip has none.
func (ps *peers) unreachableSince(p *peerState) time.Time {
	switch {
	case p.standing != Unreachable:
		return time.Time{}
	case p.verdict == VerdictDead && !p.since.IsZero():
		return p.since
	}
	return ps.clock.Now()
}

// wantsProbe tells whether a dial by the coordinator itself would settle p's standing.
func (ps *peers) wantsProbe(p *peerState) bool {
	if p.member.Left || p.unanswered || p.session != nil {
		return false
	}
	f := ps.facts(p)
	return f.Verdict == VerdictDead && p.standing == Unknown || f.Verdict == VerdictNone && f.Settled
}

// maxStrangers bounds the verdicts kept about peers that are no members.
const maxStrangers = 4096

// introduce gives a new member the verdict that gossip had on it before: it is not said again as
// long as it does not change.
func (ps *peers) introduce(p *peerState) {
	if ev, ok := ps.strangers[p.id]; ok {
		delete(ps.strangers, p.id)
		p.verdict, p.since, p.never, p.parted = ev.Verdict, ev.Since, ev.Never, ev.Parted
	}
}

// onVerdict hears gossip. A verdict of life cancels what failed dials said.
func (ps *peers) onVerdict(ev PeerVerdict) {
	p := ps.of(ev.Peer)
	if p == nil {
		if len(ps.strangers) < maxStrangers {
			ps.strangers[ev.Peer] = ev
		}
		return
	}
	p.verdict, p.since, p.never = ev.Verdict, ev.Since, ev.Never
	p.parted = ev.Parted || p.parted && ev.Verdict != VerdictAlive
	if ev.Verdict == VerdictAlive {
		p.unanswered = false
	}
	ps.review(p)
}

func (ps *peers) onProbed(ev PeerProbed) {
	p := ps.of(ev.Peer)
	if p == nil {
		return
	}
	p.probing = false
	if p.session != nil {
		return
	}
	if ev.Failed {
		p.unanswered = true
	} else {
		p.probeAt = ps.clock.Now().Add(ps.cfg.Beat)
		ps.clock.WakeAt(p.probeAt)
	}
	ps.review(p)
}

// settleAfter says how long after an election everybody has to come back.
func (ps *peers) settleAfter(d time.Duration) {
	if !ps.settledDone {
		ps.settledAt = ps.clock.Started().Add(d)
	}
}

// dueSettled ends the time in which everybody has to come back after an election.
func (ps *peers) dueSettled() {
	if ps.clock.Now().Before(ps.settledAt) {
		ps.clock.WakeAt(ps.settledAt)
	} else if !ps.settledDone {
		ps.settledDone = true
		for _, p := range ps.order {
			ps.review(p)
		}
	}
}

func (ps *peers) dueProbes() {
	for _, p := range ps.order {
		switch {
		case p.probeAt.IsZero() || p.probing:
		case !ps.wantsProbe(p):
			p.probeAt = time.Time{}
		case ps.clock.Now().Before(p.probeAt):
			ps.clock.WakeAt(p.probeAt)
		default:
			p.probing, p.probeAt = true, time.Time{}
			ps.agenda.do(ProbePeer{Peer: p.id})
		}
	}
}
