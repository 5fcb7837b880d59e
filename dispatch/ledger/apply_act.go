package ledger

import (
	"errors"

	"covey/dispatch/ledger/act"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Asked is a command as whoever asks for it knows it, and signs it: without what the coordinator
// fills in.
func (c Command) Asked() Command {
	c.Act = nil
	switch {
	case c.Invite != nil:
		i := *c.Invite
		if i.By = ""; i.Lasts > 0 {
			i.Expires = 0
		}
		c.Invite = &i
	case c.Remove != nil:
		r := *c.Remove
		r.Entry = nil
		c.Remove = &r
	case c.Admit != nil:
		c.Admit = &Admit{Entry: admission.Entry{Peer: c.Admit.Entry.Peer, Roles: c.Admit.Entry.Roles}}
	}
	return c
}

// asks is the role that whoever asks for a command needs, and the peer, "" if none, that may ask
// for it whatever its roles are. Commands that nobody asks for are not signed.
func (c *Command) asks() (need admission.Role, own taskstate.PeerID, ok bool) {
	switch {
	case c.Cancel != nil, c.Renew != nil, c.Retire != nil, c.Rollout != nil, c.Pin != nil:
		return admission.Submit, "", true
	case c.Invite != nil, c.Revoke != nil, c.Set != nil, c.Admit != nil && c.Admit.Ticket == "":
		return admission.Admin, "", true
	case c.Remove != nil:
		return admission.Admin, c.Remove.Peer, true
	case c.Avail != nil:
		return admission.Admin, c.Avail.Peer, true
	case c.Label != nil:
		return admission.Admin, c.Label.Peer, true
	}
	return "", "", false
}

// wantsWord tells whether a command is carried out only on a person's word, where nothing is done
// that nobody signed. What follows from the spec of a lasting job – tasks begun again, retired, an
// update that goes on, pauses or turns back as its job says – the coordinator decides alone.
func (s *State) wantsWord(c *Command) bool {
	switch {
	case c.Cancel != nil, c.Pin != nil, c.Avail != nil, c.Label != nil, c.Set != nil, c.Invite != nil, c.Revoke != nil, c.Remove != nil:
		return true
	case c.Admit != nil:
		return s.wantsGrant(c.Admit)
	case c.Renew != nil:
		return c.Renew.Reason == taskstate.ReasonRetried || !s.lasts(c.Renew.Job)
	case c.Retire != nil:
		return c.Retire.Reason == taskstate.ReasonCancelled || !s.lasts(c.Retire.Job)
	case c.Rollout != nil && s.lasts(c.Rollout.Job):
		j := s.jobs[c.Rollout.Job]
		switch now := j.long.rollout.State; c.Rollout.State {
		case Updating:
			return now != Updating
		case RollingBack:
			return now != RollingBack && (now != Updating || j.job.Updating().OnFailure != taskstate.RollBackUpdate)
		}
	}
	return false
}

func (s *State) lasts(id taskstate.JobID) bool {
	j, ok := s.jobs[id]
	return ok && j.long != nil
}

// wantsGrant tells whether nobody's word lets a peer in: neither that of whoever made its ticket,
// nor that of the founder, who let everybody in.
func (s *State) wantsGrant(a *Admit) bool {
	if a.Ticket == "" {
		return !s.open
	}
	inv := s.roster.invites[a.Ticket]
	return inv != nil && (inv.Word == nil || a.Proof == nil)
}

// anothers is the job that a command changes although it is not the signer's: theirs are what they
// ordered, and an admin's are all. "" where whoever may submit may change every job, because not all
// is signed.
func (s *State) anothers(c *Command) taskstate.JobID {
	var id taskstate.JobID
	var by taskstate.PeerID
	if c.Act != nil {
		by = c.Act.By
	}
	switch {
	case c.Cancel != nil:
		id = c.Cancel.Job
	case c.Renew != nil:
		id = c.Renew.Job
	case c.Retire != nil:
		id = c.Retire.Job
	case c.Rollout != nil:
		id = c.Rollout.Job
	case c.Pin != nil:
		id = c.Pin.Job
	case c.Update != nil && c.Update.Job.Order != nil:
		id, by = c.Update.Job.ID, c.Update.Job.Order.By
	case c.Submit != nil && c.Submit.Job.Origin != nil && c.Submit.Job.Order != nil && c.Submit.Job.Order.Starts == nil:
		id, by = c.Submit.Job.Origin.Job, c.Submit.Job.Order.By
	}
	if by == "" || s.MayChange(by, id) {
		return ""
	}
	return id
}

// MayChange tells whether a peer that may submit may also change a job: one that it ordered, or any
// as an admin. Where not everything is signed, nobody knows whose a job is, and all may.
func (s *State) MayChange(by taskstate.PeerID, id taskstate.JobID) bool {
	j, ok := s.jobs[id]
	if !ok || s.settings.RequireOrders != On || j.OrderedBy() == by {
		return true
	}
	m := s.roster.members[by]
	return m != nil && m.Entry.Has(admission.Admin)
}

// judge looks at who asks for a command; over: it is not carried out.
func (s *State) judge(c *Command) (r Result, over bool) {
	a := c.Act
	if a == nil && s.settings.RequireOrders == On && s.wantsWord(c) {
		return Result{Refused: CodeUnsigned}, true
	}
	if s.anothers(c) != "" {
		return Result{Refused: CodeForbidden}, true
	}
	if a == nil {
		return Result{}, false
	}
	need, own, ok := c.asks()
	if !ok {
		return Result{Refused: CodeInvalid}, true
	}
	switch err := a.Check(s.cluster, c.Asked(), s.stamp, s.verify); {
	case errors.Is(err, act.ErrLate) || err == nil && s.spent.Late(a):
		return Result{Refused: CodeLate}, true
	case err != nil:
		return Result{Refused: CodeUnsigned}, true
	}
	by := s.roster.members[a.By]
	if by == nil || !by.In() || a.By != own && !by.Entry.Has(need) {
		return Result{Refused: CodeForbidden}, true
	}
	return Result{Existed: true}, s.spent.Has(a)
}
