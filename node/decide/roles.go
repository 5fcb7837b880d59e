package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// executeRoles changes what a peer may do, as coordinator: its entry in the roster, signed anew.
// One that may not vote any more gives its seat up first, so that no majority counts on it.
func (d *Decider) executeRoles(ctx context.Context, q calls.RolesCall, word *act.Act) (calls.Reply, error) {
	e, ok := d.cfg.Roster.Get(q.Peer)
	if !ok || e.Removed {
		return calls.Reply{Error: api.Errorf(api.NotFound, "no peer %s; see `peer peers`", q.Peer)}, nil
	}
	if slices.Equal(e.Roles, q.Roles) {
		return calls.Reply{Index: d.cfg.Replica.Applied()}, nil
	}
	if e.Has(admission.Voter) && !slices.Contains(q.Roles, admission.Voter) {
		switch err := d.cfg.Ledger.RemoveVoter(ctx, q.Peer); {
		case errors.Is(err, quorum.ErrSoleVoter):
			return calls.Reply{Error: soleVoter(q.Peer)}, nil
		case err != nil:
			return calls.Reply{Lost: true}, nil //nolint:nilerr // tried again by the caller
		}
	}
	e.Roles, e.At = q.Roles, max(d.cfg.Now(), e.At+1)
	e, err := e.Signed(d.cfg.Host)
	if err != nil {
		return calls.Reply{}, fmt.Errorf("sign the roles: %w", err)
	}
	_, results, err := d.cfg.Ledger.Propose(ctx, []ledger.Command{{Admit: &ledger.Admit{Entry: e}, Act: word}})
	switch {
	case err != nil || results[0].Refused == ledger.CodeStale:
		return calls.Reply{Lost: true}, nil //nolint:nilerr // tried again by the caller
	case results[0].Refused == ledger.CodeSole:
		return calls.Reply{Error: soleVoter(q.Peer)}, nil
	case results[0].Refused != ledger.CodeNone:
		return calls.AnswerTo(ledger.Command{Admit: &ledger.Admit{Entry: e}, Act: word}, results[0], 0), nil
	}
	return calls.Reply{Index: d.cfg.Replica.Applied()}, nil
}

func soleVoter(peer taskstate.PeerID) *api.Error {
	return api.Errorf(api.Conflict, "%s is the only voter: without its vote nothing could be decided; let another peer join first, or give one the role voter", peer)
}
