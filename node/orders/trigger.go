package orders

import (
	"context"

	"covey/node/api"
	"covey/node/calls"
	"covey/taskstate"
)

// Trigger implements api.ChangeBackend.
func (o *Orders) Trigger(ctx context.Context, id string) (api.Submitted, error) {
	job, err := o.decidedJob(ctx, id)
	if err == nil && job.Origin != nil { // a run has the name of its schedule
		job, err = o.cfg.View.JobOf(job.Origin.Job)
	}
	if err != nil {
		return api.Submitted{}, err
	}
	if job.Schedule == nil {
		return api.Submitted{}, api.Errorf(api.Usage, "job %s has no schedule; what has one is started by its name, anything else is submitted again", id)
	}
	run := taskstate.NewJobID()
	if _, err := o.decide(ctx, calls.Call{Trigger: &calls.TriggerCall{Job: job.ID, Run: run}}, "nothing was started"); err != nil {
		return api.Submitted{}, err
	}
	return api.Submitted{ID: string(run)}, nil
}
