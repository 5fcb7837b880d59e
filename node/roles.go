package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum"
	"covey/node/api"
	"covey/p2p/admission"
	"covey/taskstate"
)

// rolesCall asks for other roles of an admitted peer.
type rolesCall struct {
	Peer  taskstate.PeerID `cbor:"1,keyasint"`
	Roles []admission.Role `cbor:"2,keyasint"`
}

// SetRoles implements api.PeerKeeper.
func (n *Node) SetRoles(ctx context.Context, peer string, r api.Roles) (api.PeerAnswer, error) {
	id, err := n.view.MeantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	q := rolesCall{Peer: id}
	for _, x := range r.Roles {
		q.Roles = append(q.Roles, admission.Role(x))
	}
	if e := q.check(); e != nil {
		return api.PeerAnswer{}, e
	}
	if err := n.order(ctx, call{Roles: &q}, "the roles of "+n.view.Called(id)+" are as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return n.view.PeerNow(ctx, id)
}

func (q *rolesCall) check() *api.Error {
	if q.Peer == "" || len(q.Peer) > maxCallWord {
		return api.Errorf(api.Usage, "this is no peer's id")
	}
	if len(q.Roles) == 0 {
		return api.Errorf(api.Usage, "a peer has at least one role; to end its membership: `peer remove`")
	}
	if err := admission.CheckRoles(q.Roles); err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	return nil
}

// executeRoles changes what a peer may do, as coordinator: its entry in the roster, signed anew. One that may not vote any more gives its
// seat up first, so that no majority counts on it.
func (n *Node) executeRoles(ctx context.Context, q rolesCall) (reply, error) {
	e, ok := n.roster.Get(q.Peer)
	if !ok || e.Removed {
		return reply{Error: api.Errorf(api.NotFound, "no peer %s; see `peer peers`", q.Peer)}, nil
	}
	if slices.Equal(e.Roles, q.Roles) {
		return reply{Index: n.replica.Applied()}, nil
	}
	if e.Has(admission.Voter) && !slices.Contains(q.Roles, admission.Voter) {
		switch err := n.ledger.RemoveVoter(ctx, q.Peer); {
		case errors.Is(err, quorum.ErrSoleVoter):
			return reply{Error: soleVoter(q.Peer)}, nil
		case err != nil:
			return reply{Lost: true}, nil //nolint:nilerr // tried again by whoever asks
		}
	}
	e.Roles, e.At = q.Roles, max(n.ledgerTime(), e.At+1)
	e, err := e.Signed(n.host)
	if err != nil {
		return reply{}, fmt.Errorf("sign the roles: %w", err)
	}
	_, results, err := n.ledger.Propose(ctx, []ledger.Command{{Admit: &ledger.Admit{Entry: e}}})
	switch {
	case err != nil || results[0].Refused == ledger.CodeStale:
		return reply{Lost: true}, nil //nolint:nilerr // tried again by whoever asks
	case results[0].Refused == ledger.CodeSole:
		return reply{Error: soleVoter(q.Peer)}, nil
	case results[0].Refused != ledger.CodeNone:
		return reply{Error: api.Errorf(api.Conflict, "the coordinator refused: %s", results[0].Refused)}, nil
	}
	return reply{Index: n.replica.Applied()}, nil
}

func soleVoter(peer taskstate.PeerID) *api.Error {
	return api.Errorf(api.Conflict, "%s is the only voter: without its vote nobody could decide anything; let another peer join first, or give one the role voter", peer)
}
