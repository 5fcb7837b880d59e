package orders

import (
	"context"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
)

// SetLabels implements api.PeerKeeper.
func (o *Orders) SetLabels(ctx context.Context, peer string, l api.Labels) (api.PeerAnswer, error) {
	id, err := o.cfg.Who.MeantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	if e := calls.CheckLabels(l.Set, l.Unset); e != nil {
		return api.PeerAnswer{}, e
	}
	if err := o.Order(ctx, calls.Call{Label: &ledger.Label{Peer: id, Set: l.Set, Unset: l.Unset}}, "the labels of "+o.cfg.Who.Called(id)+" are as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return o.cfg.View.PeerNow(ctx, id)
}

// SetRoles implements api.PeerKeeper.
func (o *Orders) SetRoles(ctx context.Context, peer string, r api.Roles) (api.PeerAnswer, error) {
	id, err := o.cfg.Who.MeantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	q := calls.RolesCall{Peer: id}
	for _, x := range r.Roles {
		q.Roles = append(q.Roles, admission.Role(x))
	}
	if e := q.Check(); e != nil {
		return api.PeerAnswer{}, e
	}
	if err := o.Order(ctx, calls.Call{Roles: &q}, "the roles of "+o.cfg.Who.Called(id)+" are as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return o.cfg.View.PeerNow(ctx, id)
}
