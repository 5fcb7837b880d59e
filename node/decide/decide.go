package decide

import (
	"context"
	"errors"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/calls"
	"covey/p2p/admission"
)

// Execute decides a call, as coordinator. A ledger that stops leading meanwhile makes it Lost: the
// asker tries again.
func (d *Desk) Execute(ctx context.Context, c calls.Call) (calls.Reply, error) {
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
		return d.executeRemove(ctx, *c.Remove)
	case c.Roles != nil:
		return d.executeRoles(ctx, *c.Roles)
	case c.ChangesJob():
		return d.executeChange(ctx, c)
	}
	if c.Invite != nil {
		inv := *c.Invite
		inv.By = c.From
		return d.executeInvite(ctx, inv, c.Lasts)
	}
	cmd := ledger.Command{Cancel: c.Cancel, Revoke: c.Revoke, Depart: c.Leave, Avail: c.Avail, Label: c.Label, Set: c.Set, NextCommand: c.NextCall.Command()}
	if c.Submit != nil {
		cmd.Submit = &ledger.Submit{Job: *c.Submit, Again: c.Again}
	}
	return d.propose(ctx, cmd)
}

// propose writes one command and turns its refusal into words.
func (d *Desk) propose(ctx context.Context, cmd ledger.Command) (calls.Reply, error) {
	index, results, err := d.cfg.Ledger.Propose(ctx, []ledger.Command{cmd})
	if old := new(ledger.DialectError); errors.As(err, &old) {
		return calls.Reply{Error: api.Errorf(api.Conflict, "%v", old)}, nil
	}
	if err != nil {
		return calls.Reply{Lost: true}, nil //nolint:nilerr // the caller tries again, at the next coordinator
	}
	return calls.AnswerTo(cmd, results[0], index), nil
}

func (d *Desk) allowed(c calls.Call) *api.Error {
	need := admission.Admin
	switch {
	case c.Join != nil, c.Cluster != nil, c.Leave != nil && c.Leave.Peer == c.From, c.OfItself():
		return nil
	case c.Submit != nil, c.Cancel != nil, c.ChangesJob():
		need = admission.Submit
	}
	if e, ok := d.cfg.Roster.Get(c.From); !ok || !e.Has(need) {
		return api.Errorf(api.Refused, "this peer was admitted without the role %q; ask for a ticket that gives it (peer ticket --role …)", need)
	}
	return nil
}
