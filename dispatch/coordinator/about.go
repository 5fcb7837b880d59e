package coordinator

import (
	"maps"
	"net/netip"
	"slices"

	"covey/dispatch/ledger"
	"covey/p2p/admission"
	"covey/placement"
	"covey/taskstate"
	"covey/taskstate/constraint"
)

// know takes a member over as the ledger has it. What waits in its line goes elsewhere at once if
// it is drained.
func (ps *peers) know(m *ledger.Member) {
	p := ps.addPeer(m.Entry.Peer)
	p.member, p.worker = *m, m.Entry.Has(admission.Worker)
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
	about := &constraint.Facts{
		ID: p.id, Name: o.Name, OS: o.OS, Arch: o.Arch, MilliCPU: o.Resources.MilliCPU, Memory: o.Resources.Memory,
		Offers: o.Resources.Others.Map(), Labels: p.member.LabelsOver(o.Labels),
	}
	for _, text := range o.Addrs {
		if a, err := netip.ParseAddr(text); err == nil {
			about.Addrs = append(about.Addrs, a.Unmap())
		}
	}
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

// rules are a job's words about where its tasks may go, read once.
type rules struct {
	of          *taskstate.Job
	constraints []constraint.Constraint
	over        constraint.Key
	wrong       bool // they cannot be read, though they could when the job was accepted: it goes nowhere
	matcher     placement.Matcher
}

// placing reads the rules of the job as it is wanted now.
func (j *jobState) placing() *rules {
	if j.where == nil || j.where.of != j.job {
		r := &rules{of: j.job}
		var err, err2 error
		r.constraints, err = constraint.ParseAll(j.job.Constraints)
		r.over, err2 = constraint.ParseOver(j.job.Over)
		r.wrong = err != nil || err2 != nil
		j.where = r
	}
	return j.where
}

// allows tells whether the rules let tasks of the job be on a peer; true of one that was not heard
// of in this epoch.
func (j *jobState) allows(p *peerState) bool {
	r := j.placing()
	return p.about == nil || !r.wrong && constraint.AllHold(r.constraints, p.about)
}
