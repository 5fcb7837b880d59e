package coordinator

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

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
	if p := s.p; p.session == s && (p.verdict == verdict.Suspect || p.verdict == verdict.Dead) && p.standing == Suspect {
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
	case p.verdict == verdict.Dead && !p.since.IsZero():
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
	return f.Verdict == verdict.Dead && p.standing == Unknown || f.Verdict == verdict.None && f.Settled
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
	p.parted = ev.Parted || p.parted && ev.Verdict != verdict.Alive
	if ev.Verdict == verdict.Alive {
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

// addPeer is a member, made known if it is new.
func (ps *peers) addPeer(id taskstate.PeerID) *peerState {
	if p := ps.of(id); p != nil {
		return p
	}
	p := &peerState{id: id, holds: map[taskstate.JobID]*holding{}, standing: Unknown}
	ps.all[id] = p
	ps.introduce(p)
	i, _ := slices.BinarySearchFunc(ps.order, id, func(p *peerState, id string) int { return strings.Compare(p.id, id) })
	ps.order = slices.Insert(ps.order, i, p)
	ps.agenda.changed()
	return p
}

// dropPeer forgets a removed member. Its tasks and its session are gone from it already.
func (ps *peers) dropPeer(p *peerState) {
	delete(ps.all, p.id)
	if p.verdict != verdict.None {
		ps.onVerdict(PeerVerdict{Peer: p.id, Verdict: p.verdict, Since: p.since, Never: p.never, Parted: p.parted})
	}
	ps.order = slices.DeleteFunc(ps.order, func(x *peerState) bool { return x == p })
	ps.agenda.changed()
	ps.guard.Doubt()
}

// know takes a member over as the ledger has it. What waits in its line goes elsewhere at once if
// it is drained.
func (ps *peers) know(m *ledger.Member) {
	p := ps.addPeer(m.Entry.Peer)
	p.member, p.worker = *m, m.Entry.Has(admission.Worker)
	ps.rolesAt++
	delete(ps.parted, p.id)
	p.endless = ps.clock.When(m.AvailSince + m.Grace)
	ps.describe(p)
	ps.review(p)
	ps.agenda.changed()
	ps.agenda.room()
	ps.clock.WakeAt(ps.clock.Now())
}

func (p *peerState) drained() bool { return p.member.Availability == ledger.AvailDrain }

// describe gathers anew what constraints can ask about a peer.
func (ps *peers) describe(p *peerState) {
	o := p.offer
	about := new(o.Facts(p.id))
	about.Labels = p.member.LabelsOver(o.Labels)
	if p.about != nil && sameFacts(p.about, about) {
		return
	}
	if p.session == nil && p.about == nil {
		return // nothing was heard of it yet
	}
	p.about = about
	ps.agenda.changed()
}

func sameFacts(a, b *constraint.Facts) bool {
	return a.Name == b.Name && a.OS == b.OS && a.Arch == b.Arch && a.MilliCPU == b.MilliCPU && a.Memory == b.Memory &&
		maps.Equal(a.Offers, b.Offers) && maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Addrs, b.Addrs)
}

// setOffer takes a worker's word for what it has, within reason: sums of offers and promises must
// not overflow.
func (ps *peers) setOffer(p *peerState, o session.Offer, anew bool) {
	const most = 1 << 50
	o.Resources.MilliCPU = min(max(0, o.Resources.MilliCPU), most)
	o.Resources.Memory = min(max(0, o.Resources.Memory), most)
	o.Resources.Disk = min(max(0, o.Resources.Disk), most)
	p.offer = o
	if p.owner.Offers(o.Policy, anew) {
		ps.agenda.changed()
	}
	ps.describe(p)
}
