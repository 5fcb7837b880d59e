package coordinator

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"covey/dispatch/ledger"
	"covey/p2p/admission"
	"covey/placement"
	"covey/taskstate"
	"covey/taskstate/constraint"
)

// availability is what people said about giving a peer tasks.
type availability struct {
	state   ledger.Availability
	endless time.Time // drained: tasks of batch jobs may go on until then
}

// takes tells whether the peer takes new tasks as far as people said.
func (a availability) takes() bool { return a.state == "" || a.state == ledger.AvailActive }

func (a availability) drained() bool { return a.state == ledger.AvailDrain }

// applied follows what was decided about who is a member, and what people said about one.
func (ps *peers) applied(cmd *ledger.Command) {
	switch {
	case cmd.Avail != nil:
		ps.appliedAvail(cmd.Avail)
	case cmd.Label != nil:
		ps.appliedLabel(cmd.Label)
	case cmd.Found != nil:
		ps.appliedEntry(cmd.Found.Founder)
	case cmd.Admit != nil:
		ps.appliedEntry(cmd.Admit.Entry)
	}
}

// appliedAvail follows what people said about a peer. What waits in its line goes elsewhere at once
// if it is drained.
func (ps *peers) appliedAvail(a *ledger.Avail) {
	p := ps.of(a.Peer)
	if p == nil {
		return
	}
	p.availability = availability{state: a.Availability, endless: ps.clock.Now().Add(time.Duration(a.Grace) * time.Millisecond)}
	ps.agenda.changed()
	ps.agenda.room()
	ps.clock.WakeAt(ps.clock.Now())
}

// appliedLabel follows labels that people put on a peer.
func (ps *peers) appliedLabel(l *ledger.Label) {
	p := ps.of(l.Peer)
	if p == nil {
		return
	}
	p.labels, p.unlabelled = maps.Clone(p.labels), slices.Clone(p.unlabelled)
	if p.labels == nil {
		p.labels = map[string]string{}
	}
	for k, v := range l.Set {
		p.labels[k] = v
		p.unlabelled = slices.DeleteFunc(p.unlabelled, func(x string) bool { return x == k })
	}
	for _, k := range l.Unset {
		delete(p.labels, k)
		p.unlabelled = append(p.unlabelled, k)
	}
	ps.describe(p)
	ps.agenda.room()
}

// describe gathers anew what constraints can ask about a peer.
func (ps *peers) describe(p *peerState) {
	o := p.offer
	about := &constraint.Facts{
		ID: p.id, Name: o.Name, OS: o.OS, Arch: o.Arch, MilliCPU: o.Resources.MilliCPU, Memory: o.Resources.Memory,
		Offers: o.Resources.Others.Map(), Labels: ledger.Member{Labels: p.labels, Removed: p.unlabelled}.LabelsOver(o.Labels),
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

func (ps *peers) appliedEntry(e admission.Entry) {
	p := ps.addPeer(e.Peer)
	p.worker = e.Has(admission.Worker)
	ps.review(p)
	ps.agenda.place()
}
