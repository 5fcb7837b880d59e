package decide

import (
	"cmp"
	"context"
	"slices"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/taskstate"
)

// clusterNow is this peer's view as coordinator.
func (d *Decider) clusterNow(ctx context.Context, ask calls.ClusterCall) *calls.ClusterView {
	f := &calls.ClusterView{Index: d.cfg.Replica.Applied()}
	voters := d.cfg.Deciders.LivingVoters()
	peers, err := d.cfg.Loop.Peers(ctx)
	if err != nil {
		return nil // just elected, or no longer
	}
	for _, p := range peers {
		known := d.cfg.Wrong(p.Peer)
		if p.Offer.Trouble != "" {
			known = troubles.Merge(known, []api.Trouble{{Code: cmp.Or(p.Offer.TroubleCode, api.TroubleTakesNoTasks), Message: p.Offer.Trouble}})
		}
		if p.PassedOver {
			known = troubles.Merge(known, []api.Trouble{{Code: api.TroubleStartsNothing, Message: startsNothing}})
		}
		if p.Offer.NoFiles != "" {
			known = troubles.Merge(known, []api.Trouble{{Code: api.TroubleStoreFull, Message: p.Offer.NoFiles}})
		}
		if p.NoRoom != "" {
			known = troubles.Merge(known, []api.Trouble{{Code: api.TroubleNoRoom, Message: p.NoRoom}})
		}
		known = troubles.Merge(known, open(p.Offer))
		f.Peers = append(f.Peers, calls.PeerView{
			ID: p.Peer, Standing: string(p.Standing), Offer: p.Offer.Resources, Promised: p.Promised, Tasks: p.Outstanding,
			Voter: slices.Contains(voters, p.Peer), Labels: p.Offer.Labels, OS: p.Offer.OS, Arch: p.Offer.Arch, Holds: holds(p.Offer), Trouble: p.Offer.Trouble,
			Troubles: calls.WireTroubles(known), Running: p.Running, Away: p.Away.Milliseconds(), Load: p.Load,
		})
	}
	if freeze, err := d.cfg.Loop.Frozen(ctx); err == nil {
		f.Frozen, f.Gone = freeze.String(), freeze.Gone
	}
	if ask.All {
		f.Whys, _ = d.cfg.Loop.Whys(ctx)
	}
	if job := ask.Job; job != "" {
		f.Waiting, _ = d.cfg.Loop.Waiting(ctx, job) // said or not
		spells, _ := d.cfg.Loop.Waited(ctx, job)
		for _, s := range spells {
			w := calls.Spell{Reason: s.Reason, From: s.From.UnixMilli()}
			if !s.Lasts {
				w.To = s.To.UnixMilli()
			}
			f.Waited = append(f.Waited, w)
		}
	}
	return f
}

// startsNothing is what is wrong with a peer that is passed over.
const startsNothing = "it had room for tasks and did not start them: it gets no others for five minutes, or until it starts one"

const exposed = "its tasks can read its private key, so anyone who may submit to it can take it over; its log says why, and what helps"

// open is what a peer's owner leaves open to others, as its offer says.
func open(o session.Offer) (out []api.Trouble) {
	if held := holds(o); len(held) > 0 && !slices.Contains(held, taskstate.HoldsHide) {
		out = append(out, api.Trouble{Code: api.TroubleExposed, Message: exposed})
	}
	if o.Policy != nil && o.Policy.Unsigned {
		out = append(out, api.Trouble{Code: api.TroubleUnsigned, Message: unsigned})
	}
	return out
}

const unsigned = "it takes jobs that nobody signed, so whoever coordinates can have anything run there; its owner removes the line `unsigned: allow` with `peer trust edit` when all peers sign"

// holds is what a peer can keep from tasks, as its offer says.
func holds(o session.Offer) []string {
	if o.Policy == nil {
		return nil
	}
	return o.Policy.Holds
}
