package orders

import (
	"context"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/calls"
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
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	r, err := o.cfg.Line.Decide(try, calls.Call{Pin: &ledger.Pin{Job: job.ID, Not: not}})
	if err != nil {
		return api.JobAnswer{}, o.undecided(err, "nothing was changed")
	}
	_ = o.cfg.View.Reach(try, r.Index)
	now, err := o.cfg.View.Job(ctx, string(job.ID))
	if err != nil { // it was kept only because it was pinned
		was.Job.Pinned = !not
		return was, nil
	}
	return now, nil
}
