package orders

import (
	"context"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
)

const (
	recallEvery = 3 * time.Second
	// recallFor is how long after the last attempt to submit a job it may still reach the ledger: a
	// call that was cut off is worked on for calls.Timeout at each peer on its way.
	recallFor = (calls.Hops + 1) * calls.Timeout
)

// Recall makes sure that jobs which were cancelled while they were held stay cancelled. An attempt
// to submit such a job may have reached a coordinator although its answer did not come back, or be
// under way still: the ledger is told to cancel it, again and again, until it did, or until nothing
// can be under way any more. It ends with ctx.
func (o *Orders) Recall(ctx context.Context) error {
	unknown := map[string]time.Time{} // since when the ledger has said that it does not know the job
	for {
		for _, h := range o.cfg.Held.Withdrawals() {
			id := string(h.Job.ID)
			_, err := o.cfg.Line.Decide(ctx, calls.Call{Cancel: &ledger.Cancel{Job: h.Job.ID, Reason: h.Withdrawn}})
			if ctx.Err() != nil {
				return nil
			}
			if err != nil && api.AsError(err).Code == api.NotFound {
				if since, seen := unknown[id]; !seen {
					unknown[id] = time.Now()
					continue
				} else if time.Since(since) < recallFor {
					continue
				}
			}
			delete(unknown, id)
			if _, err := o.cfg.Held.Drop(h.Job.ID, true); err != nil {
				o.cfg.Log.Warn("a cancelled job could not be forgotten; cancelling it again does no harm", "err", err)
			}
		}
		var again <-chan time.Time
		if len(o.cfg.Held.Withdrawals()) > 0 {
			again = time.After(recallEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.recalls:
		case <-again:
		}
	}
}
