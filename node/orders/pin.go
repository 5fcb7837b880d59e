package orders

import (
	"context"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
)

// Pin implements api.ChangeBackend.
func (o *Orders) Pin(ctx context.Context, id string, not bool) (api.JobAnswer, error) {
	job, err := o.decidedJob(ctx, id)
	if err != nil {
		return api.JobAnswer{}, err
	}
	was, err := o.cfg.View.Job(ctx, string(job.ID))
	if err != nil {
		return api.JobAnswer{}, err
	}
	if _, err := o.decide(ctx, calls.Call{Pin: &ledger.Pin{Job: job.ID, Not: not}}, "nothing was changed"); err != nil {
		return api.JobAnswer{}, err
	}
	now, err := o.cfg.View.Job(ctx, string(job.ID))
	if err != nil { // it was kept only because it was pinned
		was.Job.Pinned = !not
		return was, nil
	}
	return now, nil
}
