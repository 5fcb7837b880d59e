package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Warrants is who may ask for what: which commands need a person's word, whose key may say it, and
// which orders of jobs hold. It is as old as the State, and read as that is.
type Warrants struct {
	verify admission.VerifyFunc // how signatures are checked; nil: they are not
	spent  act.Spent            // which acts have counted

	head   *ledgerHead // what it judges by, and never changes
	roster *roster
	book   *jobTable
}

// Warrants is who may ask for what.
func (s *State) Warrants() *Warrants { return &s.warrants }

// judge looks at who asks for a command; over: it is not carried out.
func (w *Warrants) judge(c *Command) (r Result, over bool) {
	a := c.Act
	if a == nil && w.head.settings.RequireOrders == On && w.wantsWord(c) {
		return Result{Refused: CodeUnsigned}, true
	}
	if id, by := c.asked(); by != "" && !w.MayChange(by, id) {
		return Result{Refused: CodeForbidden}, true
	}
	if a == nil {
		return Result{}, false
	}
	need, own, ok := c.asks()
	if !ok {
		return Result{Refused: CodeInvalid}, true
	}
	switch err := a.Check(w.head.cluster, c.Asked(), w.head.stamp, w.verify); {
	case errors.Is(err, act.ErrLate) || err == nil && (w.spent.Late(a) || a.At < w.head.timeSet.To):
		return Result{Refused: CodeLate}, true
	case err != nil:
		return Result{Refused: CodeUnsigned}, true
	}
	by := w.roster.heard(a.By)
	if by == nil || a.By != own && !by.Entry.Has(need) {
		return Result{Refused: CodeForbidden}, true
	}
	return Result{Existed: true}, w.spent.Has(a)
}

// spend has the word on a command count that was carried out: asked for again, it is done already.
func (w *Warrants) spend(c *Command, r *Result) {
	if c.Act != nil && (r.Refused == CodeNone || r.Refused == CodePartly) {
		w.spent.Add(c.Act, w.head.stamp)
	}
}

// wantsWord tells whether a command is carried out only on a person's word, where nothing is done
// that nobody signed. What follows from the spec of a lasting job – tasks begun again, retired, an
// update that goes on, pauses or turns back as its job says – the coordinator decides alone. A
// command that is not named here wants a word.
func (w *Warrants) wantsWord(c *Command) bool {
	switch {
	case c.Submit != nil, c.Update != nil: // they carry their job's order
		return false
	case c.Found != nil, c.Lead != nil, c.Assign != nil, c.Settle != nil, c.Supersede != nil, c.Depart != nil, c.Register != nil,
		c.Grow != nil, c.Skip != nil, c.Reads != nil, c.Kept != nil, c.alone():
		return false
	case c.Admit != nil:
		return w.wantsGrant(c.Admit)
	case c.Renew != nil:
		return c.Renew.Reason == taskstate.ReasonRetried || !w.book.lasts(c.Renew.Job)
	case c.Retire != nil:
		return c.Retire.Reason == taskstate.ReasonCancelled || !w.book.lasts(c.Retire.Job)
	case c.Rollout != nil:
		if !w.book.lasts(c.Rollout.Job) {
			return false // it is refused anyway
		}
		j := w.book.jobs[c.Rollout.Job]
		switch now := j.long.rollout.State; c.Rollout.State {
		case taskstate.RolloutUpdating:
			return now != taskstate.RolloutUpdating
		case taskstate.RolloutRollingBack:
			return now != taskstate.RolloutRollingBack && (now != taskstate.RolloutUpdating || j.job.Updating().OnFailure != taskstate.RollBackUpdate)
		}
		return false
	}
	return true
}

// wantsGrant tells whether nobody's word lets a peer in: neither that of whoever made its ticket,
// nor that of the founder, who let everybody in.
func (w *Warrants) wantsGrant(a *Admit) bool {
	if a.Ticket == "" {
		return !w.head.open
	}
	inv := w.roster.invites[a.Ticket]
	return inv != nil && (inv.Word == nil || a.Proof == nil)
}

// MayChange tells whether a peer that may submit may also change a job: one that it ordered, or any
// as an admin. Where not everything is signed, nobody knows whose a job is, and all may.
func (w *Warrants) MayChange(by taskstate.PeerID, id taskstate.JobID) bool {
	j, ok := w.book.jobs[id]
	if !ok || w.head.settings.RequireOrders != On || j.job.OrderedBy() == by {
		return true
	}
	m := w.roster.heard(by)
	return m != nil && m.Entry.Has(admission.Admin)
}

// Chained is the roles of a member, of one that was removed those it had, that people gave it, one
// after another from an admin that the asker knows: one of roots. The word of a coordinator, or of
// whoever sent this copy of the ledger, is not needed for it, and not enough.
func (w *Warrants) Chained(peer taskstate.PeerID, roots []taskstate.PeerID) []admission.Role {
	l := lineage{members: w.roster.members, roots: roots, holds: func(g RoleGrant, peer taskstate.PeerID) bool {
		return g.holds(w.head.cluster, peer, w.verify)
	}}
	return l.roles(peer)
}

// CheckOrder tells why a job is not believed to be what somebody asks for now, whoever that is. One
// that nobody signed is taken for as long as orders are not required; a bad order never is.
func (w *Warrants) CheckOrder(job *taskstate.Job) error {
	if job.Order == nil && w.head.settings.RequireOrders != On {
		return nil
	}
	verify := w.verify
	if verify == nil {
		verify = func(string, []byte, []byte) error { return nil }
	}
	return taskstate.CheckOrder(job, w.head.cluster, w.head.stamp, verify)
}

// ordered tells why a job is not believed to be asked for, by somebody who may.
func (w *Warrants) ordered(job *taskstate.Job) Code {
	switch err := w.CheckOrder(job); {
	case errors.Is(err, taskstate.ErrOrderExpired):
		return CodeLate
	case err != nil:
		return CodeUnsigned
	}
	o := job.Order
	if o == nil {
		return CodeNone
	}
	if o.Starts != nil { // its submitter was looked at when the schedule was accepted
		if parent := w.book.jobs[job.Origin.Job]; parent != nil && !bytes.Equal(parent.job.Order.Digest(), o.Digest()) {
			return CodeUnsigned
		}
		return CodeNone
	}
	if by := w.roster.heard(o.By); by == nil || !by.Entry.Has(admission.Submit) {
		return CodeForbidden
	}
	return CodeNone
}

// OrderedBy yields the jobs that a peer's key ordered and that are not over, in order of
// acceptance.
func (w *Warrants) OrderedBy(peer taskstate.PeerID) iter.Seq[*JobRecord] {
	return func(yield func(*JobRecord) bool) {
		for _, j := range w.book.order {
			if !j.over && j.job.OrderedBy() == peer && !yield(j) {
				return
			}
		}
	}
}

// void tells whether the key that ordered a job was revoked.
func (w *Warrants) void(job *taskstate.Job) bool {
	m := w.roster.members[job.OrderedBy()]
	return m != nil && m.Revoked
}

// ErrOutdated is of an order that was good once.
var ErrOutdated = errors.New("what was signed is not wanted any more")

// Outdated tells why a task is not to start though its job was signed once: the attempt is over, or
// what was signed is not wanted any more. Nil if nothing of that is known here: this copy of the
// ledger may be behind who gave the task out.
func (w *Warrants) Outdated(t taskstate.TaskID, job *taskstate.Job) error {
	j := w.book.jobs[t.Job]
	switch _, _, _, standing := w.book.assigned(t); {
	case w.void(job):
		return fmt.Errorf("%w: the key that ordered it was revoked", ErrOutdated)
	case j == nil && w.book.finished.gone.have(t.Job):
		return fmt.Errorf("%w: the job is over and forgotten", ErrOutdated)
	case j == nil:
		return nil
	case standing == taskstate.Retired:
		return fmt.Errorf("%w: attempt %d of its slot is over", ErrOutdated, t.Attempt)
	case j.long == nil || job.Order == nil:
		return nil
	}
	if now := j.JobOf(job.Version); now != nil && now.Order != nil {
		if !bytes.Equal(now.Order.Body, job.Order.Body) {
			return fmt.Errorf("%w: version %d is another one", ErrOutdated, job.Version)
		}
		return nil
	}
	if now := j.job.Order; now == nil || job.Order.At >= now.At {
		return nil
	}
	for _, kept := range j.long.versions {
		if bytes.Equal(kept.Order.Digest(), job.Order.Digest()) {
			return nil
		}
	}
	return fmt.Errorf("%w: another one took its place", ErrOutdated)
}

// ErrNotGiven is of a task that the ledger has given to nobody, or to another peer.
var ErrNotGiven = errors.New("the ledger does not say so")

// Given tells why a task is not believed to be a peer's, in one of its lives. The first attempt of
// a slot that its submitter signed is, unless the ledger says otherwise: it costs no waiting for
// this copy of it. That a slot is begun again, that a schedule starts something, that a service has
// another slot, or that a job was taken at all only the ledger tells.
func (w *Warrants) Given(t taskstate.TaskID, job *taskstate.Job, peer taskstate.PeerID, life taskstate.Incarnation) error {
	who, at, _, standing := w.book.assigned(t)
	known := standing == taskstate.Known
	switch _, taken := w.book.jobs[t.Job]; {
	case known && who == peer && at == life:
		return nil
	case known:
		return fmt.Errorf("%w: it was given to %s", ErrNotGiven, who)
	case !taken:
		return fmt.Errorf("%w: it knows no such job", ErrNotGiven)
	case t.Attempt > 1 || job.Origin != nil || t.Slot > job.Count:
		return fmt.Errorf("%w: slot %d was not given to this peer for attempt %d", ErrNotGiven, t.Slot, t.Attempt)
	}
	return nil
}

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
	case c.Invite != nil, c.Revoke != nil, c.Set != nil, c.SetTime != nil, c.Admit != nil && c.Admit.Ticket == "":
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

// Changes is the job that a command changes; "" if it changes none.
func (c *Command) Changes() taskstate.JobID {
	switch {
	case c.Cancel != nil:
		return c.Cancel.Job
	case c.Renew != nil:
		return c.Renew.Job
	case c.Retire != nil:
		return c.Retire.Job
	case c.Rollout != nil:
		return c.Rollout.Job
	case c.Pin != nil:
		return c.Pin.Job
	case c.Update != nil:
		return c.Update.Job.ID
	}
	return ""
}

// asked is the job that a command is about and the key that asks for it: theirs are the jobs they
// ordered. The key is "" where nobody signed that.
func (c *Command) asked() (id taskstate.JobID, by taskstate.PeerID) {
	switch {
	case c.Update != nil && c.Update.Job.Order != nil:
		return c.Update.Job.ID, c.Update.Job.Order.By
	case c.Submit != nil && c.Submit.Job.Origin != nil && c.Submit.Job.Order != nil && c.Submit.Job.Order.Starts == nil:
		return c.Submit.Job.Origin.Job, c.Submit.Job.Order.By
	case c.Act != nil && c.Update == nil && c.Changes() != "":
		return c.Changes(), c.Act.By
	}
	return "", ""
}
