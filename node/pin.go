package node

import (
	"context"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/taskstate"
)

// Pin implements api.ChangeBackend.
func (n *Node) Pin(ctx context.Context, id string, not bool) (api.JobAnswer, error) {
	job, err := n.decidedJob(ctx, id)
	if err != nil {
		return api.JobAnswer{}, err
	}
	was, err := n.Job(ctx, string(job.ID))
	if err != nil {
		return api.JobAnswer{}, err
	}
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	r, err := n.decide(try, call{Pin: &ledger.Pin{Job: job.ID, Not: not}})
	if err != nil {
		return api.JobAnswer{}, n.undecided(err, "nothing was changed")
	}
	_ = n.applied.reach(try, r.Index)
	now, err := n.Job(ctx, string(job.ID))
	if err != nil { // it was kept only because it was pinned
		was.Job.Pinned = !not
		return was, nil
	}
	return now, nil
}

// forgotten says of a job that it was here, if that is known.
func (n *Node) forgotten(id string) error {
	was := false
	n.replica.Read(func(s *ledger.State) { was = s.Forgotten(taskstate.JobID(id)) })
	if !was {
		return nil
	}
	return api.Errorf(api.NotFound, "job %s ended and is forgotten, and so is its output: jobs that are over are remembered for a week, unless `peer set` says "+
		"otherwise or they take too much room; `peer pin` keeps one", id)
}
