package orders

import (
	"context"
	"math"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
)

// maxGrace bounds --grace: what is meant to be for ever is long enough.
const maxGrace = 10 * 365 * 24 * time.Hour

// SetAvailability implements api.PeerKeeper.
func (o *Orders) SetAvailability(ctx context.Context, peer string, a api.Availability) (api.PeerAnswer, error) {
	id, err := o.cfg.Who.MeantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	cmd := ledger.SetAvailability{Peer: id, Availability: ledger.Availability(a.Availability), Reason: a.Reason}
	switch {
	case a.Availability != api.Active && a.Availability != api.Paused && a.Availability != api.Drained:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "availability %q: expected active, pause or drain", a.Availability)
	case math.IsNaN(a.Grace) || a.Grace < 0 || a.Grace > maxGrace.Seconds():
		return api.PeerAnswer{}, api.Errorf(api.Usage, "the grace is 0 s to ten years")
	case a.Grace > 0 && a.Availability != api.Drained:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "a grace goes with drain: pause stops nothing")
	case len(a.Reason) > calls.MaxReason:
		return api.PeerAnswer{}, api.Errorf(api.Usage, "the reason has %d bytes, at most %d are kept", len(a.Reason), calls.MaxReason)
	}
	cmd.Grace = int64(a.Grace * 1000)
	if err := o.Order(ctx, calls.Call{Avail: &cmd}, o.cfg.Who.Called(id)+" goes on as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return o.cfg.View.PeerNow(ctx, id)
}
