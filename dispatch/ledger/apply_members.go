package ledger

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"covey/p2p/admission"
	"covey/taskstate"
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
		s.beginAgain()
	}
	s.cluster, s.generation, s.open = f.Cluster, f.Generation, f.Open
	s.enter(f.Founder)
	return Result{}
}

// enter writes an entry into the roster.
func (s *State) enter(e admission.Entry) {
	m := s.members[e.Peer]
	if m == nil {
		m = &Member{}
		s.members[e.Peer] = m
	}
	if m.Name == "" || m.Entry.Removed {
		m.Name = e.Name
	}
	if m.Entry.Removed {
		*m = Member{Name: m.Name} // what was said of its former membership does not count
	}
	m.Entry, m.Since = e, s.stamp
}

func (s *State) admit(a *Admit) Result {
	e := a.Entry
	if e.Peer == "" || e.Removed {
		return Result{Refused: CodeInvalid}
	}
	old := s.members[e.Peer]
	if old != nil && old.In() && a.Ticket != "" && old.Entry.Ticket == a.Ticket {
		return Result{Existed: true} // its answer was lost: no second use
	}
	if old != nil && !old.In() && (a.Ticket == "" || old.Entry.Ticket == a.Ticket) {
		return Result{Refused: CodeRevoked} // removed for good, unless somebody invites it again
	}
	if old != nil && old.Entry.Has(admission.Voter) && !e.Has(admission.Voter) && s.voters() == 1 {
		return Result{Refused: CodeSole} // an entry with fewer roles would leave nobody to decide
	}
	if a.Ticket != "" {
		inv := s.invites[a.Ticket]
		if inv == nil {
			return Result{Refused: CodeUnknown}
		}
		if code := inv.Check(s.stamp); code != CodeNone {
			return Result{Refused: code}
		}
		inv.Used++
	}
	s.enter(e)
	return Result{}
}

func (s *State) remove(r *Remove) Result {
	m := s.members[r.Peer]
	switch {
	case m == nil:
		return Result{Refused: CodeUnknown}
	case !m.In():
		return Result{Existed: true}
	case m.Entry.Has(admission.Voter) && s.voters() == 1:
		return Result{Refused: CodeSole}
	case r.Entry != nil && (r.Entry.Peer != r.Peer || !r.Entry.Removed):
		return Result{Refused: CodeInvalid}
	}
	if r.Entry != nil {
		m.Entry = *r.Entry
	} else {
		m.Entry.Removed, m.Entry.At, m.Entry.Sig = true, s.stamp, nil
	}
	m.Since = s.stamp
	s.giveUpAll(r.Peer, taskstate.ReasonInterrupted)
	return Result{}
}

// voters counts the members that could decide.
func (s *State) voters() int {
	n := 0
	for _, m := range s.members {
		if m.Entry.Has(admission.Voter) {
			n++
		}
	}
	return n
}

func (s *State) depart(d *Depart) Result {
	m := s.members[d.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}
	case m.Left:
		return Result{Existed: true}
	}
	m.Left, m.Since = true, s.stamp
	s.giveUpAll(d.Peer, taskstate.ReasonInterrupted)
	return Result{}
}

func (s *State) register(r *Register) Result {
	m := s.members[r.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}
	case r.Incarnation == "":
		return Result{Refused: CodeInvalid}
	case m.Incarnation == r.Incarnation && !m.Left && (r.Name == "" || r.Name == m.Name):
		return Result{Existed: true}
	}
	if m.Incarnation != r.Incarnation {
		s.giveUpAll(r.Peer, taskstate.ReasonInterrupted)
	}
	m.Incarnation, m.Left, m.Since = r.Incarnation, false, s.stamp
	m.Name = cmp.Or(r.Name, m.Name)
	return Result{}
}

func (s *State) invite(i *Invite) Result {
	if i.ID == "" || len(i.Secret) == 0 {
		return Result{Refused: CodeInvalid}
	}
	if old, ok := s.invites[i.ID]; ok {
		if bytes.Equal(old.Secret, i.Secret) {
			return Result{Existed: true}
		}
		return Result{Refused: CodeConflict}
	}
	s.pruneInvites()
	if len(s.invites) >= KeepInvites {
		return Result{Refused: CodeOver} // every one of them still admits somebody
	}
	s.invites[i.ID] = &InviteRecord{Invite: *i, Created: s.stamp}
	return Result{}
}

// pruneInvites makes room for one more, if there are invites that admit nobody any more.
func (s *State) pruneInvites() {
	if len(s.invites) < KeepInvites {
		return
	}
	var dead []*InviteRecord
	for _, r := range s.invites {
		if r.Check(s.stamp) != CodeNone {
			dead = append(dead, r)
		}
	}
	slices.SortFunc(dead, func(a, b *InviteRecord) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range dead[:min(len(dead), len(s.invites)-KeepInvites+1)] {
		delete(s.invites, r.ID)
	}
}

func (s *State) revoke(r *Revoke) Result {
	inv, ok := s.invites[r.ID]
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

func (s *State) avail(c *Avail) Result {
	m := s.members[c.Peer]
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
	m.Availability, m.Grace, m.AvailReason, m.AvailSince = to, c.Grace, c.Reason, s.stamp
	return Result{}
}

func (s *State) label(c *Label) Result {
	m := s.members[c.Peer]
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
