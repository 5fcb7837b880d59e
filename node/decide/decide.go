package decide

import (
	"cmp"
	"context"
	"errors"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Execute decides a call, as coordinator. A ledger that stops leading meanwhile makes it Lost: the
// asker tries again.
func (d *Decider) Execute(ctx context.Context, c calls.Call) (calls.Reply, error) {
	if e := d.allowed(c); e != nil {
		return calls.Reply{Error: e}, nil
	}
	switch {
	case c.Join != nil:
		return d.executeJoin(ctx, *c.Join)
	case c.Cluster != nil:
		return calls.Reply{Cluster: d.clusterNow(ctx, *c.Cluster)}, nil
	case c.Thaw != nil:
		return d.executeThaw(ctx)
	case c.Remove != nil:
		return d.executeRemove(ctx, *c.Remove, c.Act)
	case c.Roles != nil:
		return d.executeRoles(ctx, *c.Roles, c.Act)
	case c.SetTime != nil:
		return d.executeSetTime(ctx, *c.SetTime, c.Act)
	case c.ChangesJob():
		return d.executeChange(ctx, c)
	}
	if c.Invite != nil {
		inv := *c.Invite
		inv.By = c.From
		return d.executeInvite(ctx, inv, c.Act)
	}
	cmd := ledger.Command{Act: c.Act, Cancel: c.Cancel, Revoke: c.Revoke, Depart: c.Leave, Avail: c.Avail, Label: c.Label, Set: c.Set, NextCommand: c.NextCall.Command()}
	if c.Submit != nil {
		cmd.Submit = &ledger.Submit{Job: *c.Submit, Again: c.Again, First: c.First}
	}
	return d.propose(ctx, cmd)
}

// unsigned tells in words why the ledger did not take a job's order; nil if it did.
func (d *Decider) unsigned(cmd ledger.Command, r ledger.Result) (e *api.Error) {
	var job *taskstate.Job
	switch {
	case cmd.Submit != nil:
		job = &cmd.Submit.Job
	case cmd.Update != nil:
		job = &cmd.Update.Job
	}
	if job == nil || r.Refused != ledger.CodeUnsigned && r.Refused != ledger.CodeLate {
		return nil
	}
	d.cfg.Replica.Read(func(s *ledger.State) {
		if err := s.Warrants().CheckOrder(job); err != nil {
			e = api.Errorf(api.Refused, "job %s is not accepted: %v", job.ID, err)
		}
	})
	return e
}

// propose writes one command and turns its refusal into words.
func (d *Decider) propose(ctx context.Context, cmd ledger.Command) (calls.Reply, error) {
	index, results, err := d.cfg.Ledger.Propose(ctx, []ledger.Command{cmd})
	if old := new(ledger.DialectError); errors.As(err, &old) {
		return calls.Reply{Error: api.Errorf(api.Conflict, "%v", old)}, nil
	}
	if err != nil {
		return calls.Reply{Lost: true}, nil //nolint:nilerr // the caller tries again, at the next coordinator
	}
	r := calls.AnswerTo(cmd, results[0], index)
	if e := d.unsigned(cmd, results[0]); e != nil {
		r.Error = e
	}
	if e, same := d.resubmitted(ctx, cmd, results[0], index); same {
		r.Error = e
	}
	return r, nil
}

// resubmitted reports whether a submission was refused for its id although the job that has the id
// is what was submitted, and says then what stands in the way; nil if nothing does. A peer that may
// not read the job does not learn of it.
func (d *Decider) resubmitted(ctx context.Context, cmd ledger.Command, r ledger.Result, index uint64) (e *api.Error, same bool) {
	if cmd.Submit == nil || !r.Existed || r.Refused != ledger.CodeConflict || d.cfg.View.Reach(ctx, index) != nil {
		return nil, false
	}
	job := &cmd.Submit.Job
	from, _ := d.cfg.Roster.Get(job.Submitter)
	reads := from.Has(admission.Read) || from.Has(admission.Admin)
	d.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(job.ID)
		if same = ok && (reads || j.Job().Party(job.Submitter)) && j.Resubmitted(job); !same {
			return
		}
		switch old := j.Job(); {
		case job.Secrets != nil && old.Secrets.By == job.Secrets.By:
			e = api.Errorf(api.Conflict, "job %s was submitted before with other secrets; see `peer job %s`", job.ID, job.ID)
		case job.Secrets != nil:
			e = api.Errorf(api.Conflict, "job %s was submitted before, and only the peer %s can compare its secrets with these: submit it again there; see `peer job %s`", job.ID, old.Secrets.By, job.ID)
		case job.Stdin && old.Submitter != job.Submitter:
			e = api.Errorf(api.Conflict, "job %s was submitted before, through the peer %s, which takes its stdin: give it there", job.ID, old.Submitter)
		}
	})
	return e, same
}

func (d *Decider) allowed(c calls.Call) *api.Error {
	need := admission.Admin
	switch {
	case c.Join != nil, c.Cluster != nil, c.Leave != nil && c.Leave.Peer == c.From, c.OfItself():
		return nil
	case c.Submit != nil, c.Cancel != nil, c.ChangesJob():
		need = admission.Submit
	}
	if e, ok := d.cfg.Roster.Get(c.From); !ok || !e.Has(need) {
		return api.Errorf(api.Refused, "this peer is without the role %q; a peer with the role admin gives it: peer roles %s ROLE…", need, cmp.Or(e.Name, c.From))
	}
	return d.anothers(c)
}

// anothers refuses to change a job that another peer ordered, to all but admins.
func (d *Decider) anothers(c calls.Call) (no *api.Error) {
	id := c.Changes()
	if id == "" {
		return nil
	}
	d.cfg.Replica.Read(func(s *ledger.State) {
		if !s.Warrants().MayChange(c.From, id) {
			j, _ := s.Job(id)
			no = api.Errorf(api.Refused, "job %s was ordered by another peer (%s): only that one, or one with the role admin, may change it", id, j.Job().OrderedBy())
		}
	})
	return no
}
