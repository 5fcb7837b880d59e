package node

import (
	"context"
	"math"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/taskstate"
)

// maxGrace bounds --grace: what is meant to be for ever is long enough.
const maxGrace = 10 * 365 * 24 * time.Hour

// SetAvailability implements api.PeerKeeper.
func (n *Node) SetAvailability(ctx context.Context, peer string, a api.Availability) (api.PeerAnswer, error) {
	id, err := n.view.MeantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	cmd := ledger.Avail{Peer: id, Availability: ledger.Availability(a.Availability), Reason: a.Reason}
	switch {
	case a.Availability != api.Active && a.Availability != api.Paused && a.Availability != api.Drained:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "availability %q: want active, pause or drain", a.Availability)
	case math.IsNaN(a.Grace) || a.Grace < 0 || a.Grace > maxGrace.Seconds():
		return api.PeerAnswer{}, api.Errorf(api.Usage, "the grace is 0 s to ten years")
	case a.Grace > 0 && a.Availability != api.Drained:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "a grace goes with drain: pause stops nothing")
	case len(a.Reason) > maxCallReason:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "the reason has %d bytes, at most %d are kept", len(a.Reason), maxCallReason)
	}
	cmd.Grace = int64(a.Grace * 1000)
	if err := n.order(ctx, call{Avail: &cmd}, n.view.Called(id)+" goes on as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return n.view.PeerNow(ctx, id)
}

// ofItself tells whether a peer asks for something about itself that is its owner's to say, whatever roles it was given.
func (c *call) ofItself() bool {
	return c.Avail != nil && c.Avail.Peer == c.From || c.Label != nil && c.Label.Peer == c.From || c.Remove != nil && c.Remove.Peer == c.From
}

// refusedPeer says why the ledger did not change what a peer is for.
func refusedPeer(id taskstate.PeerID, code ledger.Code) *api.Error {
	switch code {
	case ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no peer %s; see `peer peers`", id)
	case ledger.CodeInvalid:
		return api.Errorf(api.Usage, "the ledger takes no such change of peer %s", id)
	}
	return api.Errorf(api.Conflict, "the coordinator refused: %s", code)
}
