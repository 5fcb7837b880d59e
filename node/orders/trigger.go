package orders

import (
	"context"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/taskstate"
)

// Trigger implements api.ChangeBackend.
func (o *Orders) Trigger(ctx context.Context, id string) (api.Submitted, error) {
	job, err := o.liveJob(ctx, id)
	if err == nil && job.Origin != nil { // a run has the name of its schedule
		job, err = o.cfg.View.JobOf(job.Origin.Job)
	}
	if err != nil {
		return api.Submitted{}, err
	}
	if job.Schedule == nil {
		return api.Submitted{}, api.Errorf(api.Usage, "job %s has no schedule; what has one is started by its name, anything else is submitted again", id)
	}
	if s := job.Secrets; s != nil && s.By != o.cfg.Self {
		return api.Submitted{}, api.Errorf(api.Conflict, "the secrets of job %s were given to %s, which answers for its runs: type the same there", id, o.cfg.Who.Called(s.By))
	}
	run := job.RunNow(taskstate.NewJobID())
	if err := o.sign(&run, nil); err != nil {
		return api.Submitted{}, err
	}
	if _, err := o.decide(ctx, calls.Call{Trigger: &calls.TriggerCall{Job: job.ID, Run: run.ID, Order: run.Order}}, "nothing was started"); err != nil {
		return api.Submitted{}, err
	}
	return api.Submitted{ID: string(run.ID)}, nil
}
