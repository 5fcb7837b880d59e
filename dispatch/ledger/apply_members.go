package ledger

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// found begins the ledger, or, with a higher generation, begins it again over what a survivor held.
func (s *State) found(f *Found) Result {
	if s.cluster != "" {
		switch {
		case f.Cluster == s.cluster && f.Generation == s.generation:
			return Result{Existed: true}
		case f.Cluster != s.cluster || f.Generation < s.generation:
			return Result{Refused: CodeConflict}
		}
	}
	if f.Cluster == "" || f.Founder.Peer == "" {
		return Result{Refused: CodeInvalid}
	}
	if s.cluster != "" {
		s.began = s.index // from a copy which may lack the last decisions of the generation before
		s.book.raise()
	}
	s.cluster, s.generation, s.open = f.Cluster, f.Generation, f.Open
	if f.RequireOrders {
		s.settings.RequireOrders = On
	}
	s.roster.enter(f.Founder, s.stamp)
	return Result{}
}

// enter writes an entry into the roster.
func (r *roster) enter(e admission.Entry, stamp int64) {
	m := r.members[e.Peer]
	if m == nil {
		m = &Member{}
		r.members[e.Peer] = m
	}
	if m.Name == "" || m.Entry.Removed {
		m.Name = e.Name
	}
	if m.Entry.Removed {
		// What else was said of its former membership does not count.
		*m = Member{Name: m.Name, Grants: m.Grants, Revoked: m.Revoked}
	}
	m.Entry, m.Since = e, stamp
}

func (r *roster) admit(a *Admit, word *act.Act, stamp int64) Result {
	e := a.Entry
	if e.Peer == "" || e.Removed {
		return Result{Refused: CodeInvalid}
	}
	old := r.members[e.Peer]
	if old != nil && old.In() && a.Ticket != "" && old.Entry.Ticket == a.Ticket {
		return Result{Existed: true} // its answer was lost: no second use
	}
	if old != nil && !old.In() && (a.Ticket == "" || old.Entry.Ticket == a.Ticket) {
		return Result{Refused: CodeRevoked} // removed for good, unless somebody invites it again
	}
	if old != nil && old.Entry.Has(admission.Voter) && !e.Has(admission.Voter) && r.voters() == 1 {
		return Result{Refused: CodeSole} // an entry with fewer roles would leave nobody to decide
	}
	says := a.Dialect != 0 || old == nil || !old.In()
	if says && max(1, a.Dialect) < r.speaks() {
		return Result{Refused: CodeDialect}
	}
	if a.Ticket != "" {
		inv := r.invites[a.Ticket]
		if inv == nil {
			return Result{Refused: CodeUnknown}
		}
		if code := inv.Check(stamp); code != CodeNone {
			return Result{Refused: code}
		}
		if a.Proof != nil && (!admission.Proved(inv.Secret, e.Peer, a.Proof) || !slices.Equal(e.Roles, inv.Roles)) {
			return Result{Refused: CodeUnsigned}
		}
		inv.Used++
	}
	r.enter(e, stamp)
	r.members[e.Peer].grant(a, word, r.invites[a.Ticket])
	if says {
		r.members[e.Peer].says(a.Dialect)
	}
	r.raiseDialect()
	return Result{}
}

// grant remembers whose word an entry rests on, if it is anybody's.
func (m *Member) grant(a *Admit, word *act.Act, t *InviteRecord) {
	switch {
	case a.Ticket == "" && word != nil:
		m.granted(RoleGrant{Word: *word, Roles: a.Entry.Roles})
	case a.Ticket != "" && t.Word != nil && a.Proof != nil:
		made := t.Invite
		m.granted(RoleGrant{Word: *t.Word, Roles: a.Entry.Roles, Ticket: &made, Proof: a.Proof})
	}
}

func (r *roster) remove(c *Remove, stamp int64) (res Result, gone bool) {
	m := r.members[c.Peer]
	switch {
	case m == nil:
		return Result{Refused: CodeUnknown}, false
	case !m.In() && c.Revoke && !m.Revoked:
		m.Revoked = true
		return Result{}, false
	case !m.In():
		return Result{Existed: true}, false
	case m.Entry.Has(admission.Voter) && r.voters() == 1:
		return Result{Refused: CodeSole}, false
	case c.Entry != nil && (c.Entry.Peer != c.Peer || !c.Entry.Removed):
		return Result{Refused: CodeInvalid}, false
	}
	if c.Entry != nil {
		m.Entry = *c.Entry
	} else {
		m.Entry.Removed, m.Entry.At, m.Entry.Sig = true, stamp, nil
	}
	m.Since, m.Revoked = stamp, m.Revoked || c.Revoke
	r.raiseDialect()
	return Result{}, true
}

func (s *State) remove(c *Remove) Result {
	r, gone := s.roster.remove(c, s.stamp)
	r = s.lost(c.Peer, r, gone)
	if !c.Revoke || r.Refused != CodeNone || r.Existed {
		return r
	}
	for _, i := range s.roster.invites {
		if i.maker() == c.Peer {
			i.Revoked = true
		}
	}
	for j := range s.warrants.OrderedBy(c.Peer) {
		if !j.cancelled {
			s.book.cancelAfter(j, taskstate.ReasonNone, "the key of "+c.Peer+", which ordered it, was revoked")
		}
	}
	return r
}

// lost gives up what a peer had that is gone, or is not the one it was.
func (s *State) lost(peer taskstate.PeerID, r Result, gone bool) Result {
	if gone {
		s.book.giveUpAll(peer, taskstate.ReasonInterrupted)
	}
	return r
}

// voters counts the members that could decide.
func (r *roster) voters() int {
	n := 0
	for _, m := range r.members {
		if m.Entry.Has(admission.Voter) {
			n++
		}
	}
	return n
}

func (r *roster) depart(d *Depart, stamp int64) (res Result, gone bool) {
	m := r.members[d.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}, false
	case m.Left:
		return Result{Existed: true}, false
	}
	m.Left, m.Since = true, stamp
	return Result{}, true
}

func (r *roster) register(c *Register, stamp int64) (res Result, gone bool) {
	m := r.members[c.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}, false
	case c.Incarnation == "":
		return Result{Refused: CodeInvalid}, false
	case m.Incarnation == c.Incarnation && !m.Left && (c.Name == "" || c.Name == m.Name):
		return Result{Existed: true}, false
	}
	gone = m.Incarnation != c.Incarnation
	m.Incarnation, m.Left, m.Since = c.Incarnation, false, stamp
	m.Name = cmp.Or(c.Name, m.Name)
	return Result{}, gone
}

func (r *roster) invite(i *Invite, word *act.Act, stamp int64) Result {
	if i.ID == "" || len(i.Secret) == 0 {
		return Result{Refused: CodeInvalid}
	}
	if old, ok := r.invites[i.ID]; ok {
		if bytes.Equal(old.Secret, i.Secret) {
			return Result{Existed: true}
		}
		return Result{Refused: CodeConflict}
	}
	r.pruneInvites(stamp)
	if len(r.invites) >= KeepInvites {
		return Result{Refused: CodeOver} // every one of them still admits somebody
	}
	made := &InviteRecord{Invite: *i, Created: stamp, Word: word}
	if i.Lasts > 0 {
		made.Expires = stamp + i.Lasts
	}
	r.invites[i.ID] = made
	return Result{}
}

// pruneInvites makes room for one more, if there are invites that admit nobody any more.
func (r *roster) pruneInvites(stamp int64) {
	if len(r.invites) < KeepInvites {
		return
	}
	var dead []*InviteRecord
	for _, inv := range r.invites {
		if inv.Check(stamp) != CodeNone {
			dead = append(dead, inv)
		}
	}
	slices.SortFunc(dead, func(a, b *InviteRecord) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, inv := range dead[:min(len(dead), len(r.invites)-KeepInvites+1)] {
		delete(r.invites, inv.ID)
	}
}

func (r *roster) revoke(c *Revoke) Result {
	inv, ok := r.invites[c.ID]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case inv.Revoked:
		return Result{Existed: true}
	}
	inv.Revoked = true
	return Result{}
}

// maxLabelBytes caps a label, name and value together.
const maxLabelBytes = 512

func (r *roster) avail(c *SetAvailability, stamp int64) Result {
	m := r.members[c.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}
	case c.Grace < 0 || c.Availability != AvailActive && c.Availability != AvailPause && c.Availability != AvailDrain:
		return Result{Refused: CodeInvalid}
	}
	to := c.Availability
	if to == AvailActive {
		to = ""
	}
	if m.Availability == to && m.Grace == c.Grace && m.AvailReason == c.Reason {
		return Result{Existed: true}
	}
	m.Availability, m.Grace, m.AvailReason, m.AvailSince = to, c.Grace, c.Reason, stamp
	return Result{}
}

func (r *roster) label(c *Label) Result {
	m := r.members[c.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}
	case len(c.Set)+len(c.Unset) == 0:
		return Result{Refused: CodeInvalid}
	}
	set, removed := maps.Clone(m.Labels), slices.Clone(m.Removed) // what was handed out stays as it is
	if set == nil {
		set = map[string]string{}
	}
	for k, v := range c.Set {
		if k == "" || len(k)+len(v) > maxLabelBytes {
			return Result{Refused: CodeInvalid}
		}
		set[k] = v
		removed = slices.DeleteFunc(removed, func(x string) bool { return x == k })
	}
	for _, k := range c.Unset {
		if k == "" || len(k) > maxLabelBytes {
			return Result{Refused: CodeInvalid}
		}
		delete(set, k)
		removed = append(removed, k)
	}
	slices.Sort(removed)
	removed = slices.Compact(removed)
	switch {
	case len(set)+len(removed) > MaxLabels:
		return Result{Refused: CodeInvalid}
	case maps.Equal(set, m.Labels) && slices.Equal(removed, m.Removed):
		return Result{Existed: true}
	}
	m.Labels, m.Removed = set, removed
	if len(set) == 0 {
		m.Labels = nil
	}
	if len(removed) == 0 {
		m.Removed = nil
	}
	return Result{}
}
