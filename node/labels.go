package node

import (
	"context"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/calls"
	"covey/p2p/admission"
)

// SetLabels implements api.PeerKeeper.
func (n *Node) SetLabels(ctx context.Context, peer string, l api.Labels) (api.PeerAnswer, error) {
	id, err := n.view.MeantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	if e := calls.CheckLabels(l.Set, l.Unset); e != nil {
		return api.PeerAnswer{}, e
	}
	if err := n.order(ctx, calls.Call{Label: &ledger.Label{Peer: id, Set: l.Set, Unset: l.Unset}}, "the labels of "+n.view.Called(id)+" are as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return n.view.PeerNow(ctx, id)
}

// SetRoles implements api.PeerKeeper.
func (n *Node) SetRoles(ctx context.Context, peer string, r api.Roles) (api.PeerAnswer, error) {
	id, err := n.view.MeantPeer(peer)
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
	if err := n.order(ctx, calls.Call{Roles: &q}, "the roles of "+n.view.Called(id)+" are as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return n.view.PeerNow(ctx, id)
}
