package orders

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Remove implements api.AdminBackend.
func (o *Orders) Remove(ctx context.Context, peer string, how api.Removal) error {
	id, err := o.everAdmitted(peer, how.Revoke)
	if err != nil {
		return err
	}
	if id == o.cfg.Self {
		return api.Errorf(api.Conflict, "%s is this very peer, and `peer remove` is for others: `peer leave` hands over what this one has, gives up its membership and stops it; to remove it although it cannot leave, type this at another peer", peer)
	}
	return o.Order(ctx, calls.Call{Remove: &ledger.Remove{Peer: id, Reason: "by " + o.cfg.Who.Called(o.cfg.Self), Revoke: how.Revoke}}, peer+" was not removed")
}

// OrderedBy implements api.AdminBackend.
func (o *Orders) OrderedBy(_ context.Context, peer string) (api.Ordered, error) {
	id, err := o.everAdmitted(peer, true)
	if err != nil {
		return api.Ordered{}, err
	}
	out := api.Ordered{Peer: id, Jobs: []api.OrderedJob{}}
	var gave []taskstate.PeerID
	o.cfg.Replica.Read(func(s *ledger.State) {
		out.Secrets = secretsKnown(s, id)
		for m := range s.Members() {
			if n := len(m.Grants); m.In() && n > 0 && m.Grants[n-1].Word.By == id && m.Entry.Peer != id {
				gave = append(gave, m.Entry.Peer)
			}
		}
		for j := range s.Warrants().OrderedBy(id) {
			if _, _, cancelled := j.Cancelled(); !cancelled {
				out.Jobs = append(out.Jobs, api.OrderedJob{ID: string(j.Job().ID), Name: j.Job().Name, Type: string(cmp.Or(j.Job().Type, taskstate.BatchJob)), Run: j.Job().Order != nil && j.Job().Order.Starts != nil})
			}
		}
	})
	for _, m := range gave { // names are asked for by a read of their own
		out.Gave = append(out.Gave, o.cfg.Who.Called(m))
	}
	return out, nil
}

// secretsKnown lists the secrets that a peer sealed, or may have opened as a worker. To which peers
// they were sealed cannot be seen, so it is all those of jobs that a worker could have been given.
func secretsKnown(s *ledger.State, id taskstate.PeerID) (out []api.OrderedSecret) {
	m, _ := s.Member(id)
	worker := !m.In() || slices.Contains(m.Entry.Roles, admission.Worker) // of one that is gone it is not known any more
	for j := range s.Jobs() {
		job := j.Job()
		if job.Secrets == nil || job.Secrets.By != id && !worker {
			continue
		}
		out = append(out, api.OrderedSecret{Job: string(job.ID), Name: job.Name, Secrets: job.Secrets.Names, Given: job.Secrets.By == id})
	}
	return out
}

// everAdmitted finds the peer a person means. One that was removed is named by its whole id.
func (o *Orders) everAdmitted(peer string, removed bool) (id taskstate.PeerID, err error) {
	if id, err = o.cfg.Who.FindPeer(peer); err == nil || !removed {
		return id, err
	}
	o.cfg.Replica.Read(func(s *ledger.State) {
		if _, ok := s.Member(peer); ok {
			id, err = peer, nil
		}
	})
	return id, err
}

// Order is decide for commands that answer nothing, on a limit that leaves room for a change of
// voters.
func (o *Orders) Order(ctx context.Context, c calls.Call, sequel string) error {
	if err := o.awaitCoordinator(ctx); err != nil {
		return o.undecided(err, sequel)
	}
	try, cancel := context.WithTimeout(ctx, far.Allow(calls.Timeout, o.cfg.Ledger.Distance()))
	defer cancel()
	r, err := o.cfg.Line.Decide(try, c)
	if err != nil {
		return o.undecided(err, sequel)
	}
	if c.Remove == nil || c.Remove.Peer != o.cfg.Self { // its own removal is the one entry a peer never gets to see
		_ = o.cfg.View.Reach(try, r.Index)
	}
	return nil
}

// Thaw implements api.AdminBackend.
func (o *Orders) Thaw(ctx context.Context) (api.Thawed, error) {
	r, err := o.decide(ctx, calls.Call{Thaw: &calls.ThawCall{}}, "nothing was thawed")
	if err != nil {
		return api.Thawed{}, err
	}
	return api.Thawed{Thawed: o.cfg.Who.Sorted(r.Gone), AsOf: time.Now().UTC()}, nil
}

// awaitCoordinator waits until somebody is known to decide, as long as a person should be kept
// waiting for that.
func (o *Orders) awaitCoordinator(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.acceptTimeout())
	defer cancel()
	for {
		changed := o.cfg.Ledger.Changed()
		if _, _, ok := o.cfg.Ledger.Coordinator(); ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return calls.ErrNobodyDecides
		}
	}
}
