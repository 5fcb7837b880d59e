package orders

import (
	"context"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/taskstate"
)

// Retry implements api.ChangeBackend.
func (o *Orders) Retry(ctx context.Context, subject string) (api.Retried, error) {
	job, slot, attempt, err := o.decidedTask(ctx, subject, o.cfg.View.Find)
	if err != nil {
		return api.Retried{}, err
	}
	out := api.Retried{ID: string(job.ID)}
	runs, count := o.endedBadly(job.ID, slot)
	if slot > 0 && (count == 0 || attempt > 0 && runs[0].Attempt != attempt) {
		return out, o.noRetry(job, slot, attempt)
	}
	for part := range slices.Chunk(runs, calls.MaxRuns) {
		r, err := o.decide(ctx, calls.Call{Renew: &ledger.Renew{Job: job.ID, Slots: part, Reason: taskstate.ReasonRetried}}, "nothing more was retried")
		if err != nil {
			return out, err
		}
		count -= r.Partly
	}
	if out.Retried = count; count > 0 {
		o.cfg.Replica.Read(func(s *ledger.State) {
			for _, id := range s.BegunAfter(job.ID) {
				out.Begun = append(out.Begun, string(id))
			}
		})
	}
	return out, nil
}

// noRetry is why a task is not run again.
func (o *Orders) noRetry(job *taskstate.Job, slot, attempt int) error {
	id := job.ID
	rec, slots := o.slotOf(id, slot)
	task := job.Called(taskstate.Task(id, slot, max(1, rec.Attempt)))
	switch {
	case slot > slots:
		return api.Errorf(api.NotFound, "job %s has %d slots, no slot %d", id, slots, slot)
	case attempt > 0 && attempt != rec.Attempt:
		return api.Errorf(api.Conflict, "slot %d of job %s is in attempt %d, not %d", slot, id, rec.Attempt, attempt)
	case rec.Final == nil:
		return api.Errorf(api.Conflict, "task %s has not ended; stop it with `peer cancel %s` first", task, task)
	case rec.Retired:
		return api.Errorf(api.Conflict, "task %s was cancelled for good, or is not wanted any more; it is not run again", task)
	}
	return api.Errorf(api.Conflict, "task %s is complete; only failed or stopped tasks are retried", task)
}

// endedBadly lists the slots that are wanted and ended otherwise than complete, in the attempts
// they ended in: all, or only this one.
func (o *Orders) endedBadly(id taskstate.JobID, only int) (runs []ledger.Slots, count int) {
	o.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(id)
		if !ok {
			return
		}
		for k := 1; k <= j.Slots(); k++ {
			r := j.Slot(k)
			if only > 0 && k != only || r.Final == nil || r.Retired || r.Final.State == taskstate.Complete {
				continue
			}
			count++
			if l := len(runs) - 1; l >= 0 && runs[l].First+runs[l].N == k && runs[l].Attempt == r.Attempt {
				runs[l].N++
			} else {
				runs = append(runs, ledger.Slots{First: k, N: 1, Attempt: r.Attempt})
			}
		}
	})
	return runs, count
}

// cancelTask stops one task of a batch job for good.
func (o *Orders) cancelTask(ctx context.Context, subject string) (api.Job, error) {
	job, slot, attempt, err := o.decidedTask(ctx, subject, o.cfg.View.FindLive)
	if err != nil {
		return api.Job{}, err
	}
	rec, slots := o.slotOf(job.ID, slot)
	switch {
	case job.Type == taskstate.ServiceJob:
		return api.Job{}, api.Errorf(api.Conflict, "service %s keeps %d tasks running, so another one would take its place; `peer scale %s=N` sets how many there are, `peer explain %s.%d` tells why one misbehaves",
			job.Name, job.Count, job.Name, job.Name, slot)
	case job.Type == taskstate.GlobalJob:
		return api.Job{}, api.Errorf(api.Conflict, "global job %s has a task on each peer that fits, so another one would take its place; its constraints choose the peers, `peer drain` empties one", job.Name)
	case slot == 0 || slot > slots:
		return api.Job{}, api.Errorf(api.NotFound, "job %s has %d slots, no slot %d", job.ID, slots, slot)
	case rec.Final != nil:
		return api.Job{}, api.Errorf(api.Conflict, "task %s has ended (%s); there is nothing to cancel", job.Called(taskstate.Task(job.ID, slot, rec.Attempt)), rec.Final.State)
	case attempt > 0 && attempt != rec.Attempt:
		return api.Job{}, api.Errorf(api.Conflict, "slot %d of job %s is in attempt %d, not %d", slot, job.ID, rec.Attempt, attempt)
	}
	r, err := o.decide(ctx, calls.Call{Retire: &ledger.Retire{
		Job: job.ID, Slots: []ledger.Slots{{First: slot, N: 1, Attempt: rec.Attempt}}, Reason: taskstate.ReasonCancelled,
	}}, "the task was not cancelled")
	switch {
	case err != nil:
		return api.Job{}, err
	case r.Partly > 0:
		return api.Job{}, api.Errorf(api.Conflict, "task %s ended or was replaced just now; see `peer tasks %s`", job.Called(taskstate.Task(job.ID, slot, rec.Attempt)), job.ID)
	}
	return o.cfg.View.JobNow(job.ID)
}

func (o *Orders) slotOf(id taskstate.JobID, slot int) (r ledger.SlotRecord, slots int) {
	o.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			r, slots = j.Slot(slot), j.Slots()
		}
	})
	return r, slots
}

// decidedTask finds a job that the ledger has, and the slot and attempt that a word means.
func (o *Orders) decidedTask(ctx context.Context, word string, find func(context.Context, string) (taskstate.JobID, *view.Held, error)) (*taskstate.Job, int, int, error) {
	id, slot, attempt, held, err := o.cfg.View.FindTask(ctx, word, find)
	job, err := o.decided(id, held, err)
	return job, slot, attempt, err
}

// Rebalance implements api.ChangeBackend.
func (o *Orders) Rebalance(ctx context.Context, id string, dryRun bool) (api.Rebalanced, error) {
	job, err := o.liveJob(ctx, id)
	if err != nil {
		return api.Rebalanced{}, err
	}
	if job.Type != taskstate.ServiceJob {
		return api.Rebalanced{}, api.Errorf(api.Usage, "%s job %s: only a service is rebalanced; what waits of other jobs goes to where there is room anyway", kindOf(job), job.Name)
	}
	out := api.Rebalanced{ID: string(job.ID), DryRun: dryRun, AtOnce: job.Updating().Parallelism, Moves: []api.Move{}}
	r, err := o.decide(ctx, calls.Call{Rebalance: &calls.RebalanceCall{Job: job.ID, DryRun: dryRun}}, "nothing was moved")
	if err != nil {
		return out, err
	}
	for _, m := range r.Moves {
		out.Moves = append(out.Moves, api.Move{
			Task: taskstate.Task(job.ID, m.Slot, m.Attempt).String(), From: m.From, FromName: o.cfg.Who.Name(m.From), To: m.To, ToName: o.cfg.Who.Name(m.To),
		})
	}
	out.AsOf = time.Now().UTC()
	return out, nil
}
