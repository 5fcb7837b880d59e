package node

import (
	"context"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/calls"
)

// Pin implements api.ChangeBackend.
func (n *Node) Pin(ctx context.Context, id string, not bool) (api.JobAnswer, error) {
	job, err := n.decidedJob(ctx, id)
	if err != nil {
		return api.JobAnswer{}, err
	}
	was, err := n.view.Job(ctx, string(job.ID))
	if err != nil {
		return api.JobAnswer{}, err
	}
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	r, err := n.line.Decide(try, calls.Call{Pin: &ledger.Pin{Job: job.ID, Not: not}})
	if err != nil {
		return api.JobAnswer{}, n.undecided(err, "nothing was changed")
	}
	_ = n.view.Reach(try, r.Index)
	now, err := n.view.Job(ctx, string(job.ID))
	if err != nil { // it was kept only because it was pinned
		was.Job.Pinned = !not
		return was, nil
	}
	return now, nil
}
