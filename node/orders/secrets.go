package orders

import (
	"context"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// Secrets seals what only the tasks of a job are to read.
type Secrets interface {
	// Seal seals values for a job that has its id; nil without values.
	Seal(ctx context.Context, job *taskstate.Job, values map[string][]byte) (*taskstate.Secrets, error)
	// Update is Seal for an update of a job; if the values are the job's, so is what it returns.
	Update(ctx context.Context, old *taskstate.Job, values map[string][]byte) (*taskstate.Secrets, error)
	// Own gives the secrets of a job that this peer answers for from now on.
	Own(ctx context.Context, job *taskstate.Job) (*taskstate.Secrets, error)
}

// seal puts the secrets of a submission into its job, or into an update of the job old.
func (o *Orders) seal(ctx context.Context, job, old *taskstate.Job, values map[string][]byte) (err error) {
	if job.Secrets != nil {
		return api.Errorf(api.Usage, "the secrets of a job are sealed by the peer that is asked: give their values beside the job, as `peer submit` does")
	}
	if old == nil {
		job.Secrets, err = o.cfg.Secrets.Seal(ctx, job, values)
	} else {
		job.Secrets, err = o.cfg.Secrets.Update(ctx, old, values)
	}
	if err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	return nil
}

// before returns the job that this peer submitted or holds under the same id, if it has secrets:
// the same values stay as they were sealed, so that the same submission is seen to be the same.
func (o *Orders) before(job *taskstate.Job) *taskstate.Job {
	old, err := o.cfg.View.JobOf(job.ID)
	if err != nil {
		old = nil
		for _, h := range o.cfg.Held.List() {
			if h.Job.ID == job.ID {
				old = &h.Job
			}
		}
	}
	if old == nil || old.Secrets == nil || old.Secrets.By != o.cfg.Self {
		return nil
	}
	return old
}

// own has this peer answer for the secrets of a job that it orders in the place of another.
func (o *Orders) own(ctx context.Context, job *taskstate.Job) (err error) {
	if job.Secrets == nil {
		return nil
	}
	if job.Secrets, err = o.cfg.Secrets.Own(ctx, job); err != nil {
		return api.Errorf(api.Conflict, "%v", err)
	}
	return nil
}
