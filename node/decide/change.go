package decide

import (
	"context"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/taskstate"
)

// executeChange decides a call about a job that is there, as coordinator.
func (d *Decider) executeChange(ctx context.Context, c calls.Call) (calls.Reply, error) {
	switch {
	case c.Preview != nil:
		job := c.Preview.Job
		job.Order = &taskstate.Order{By: c.From} // who asks would sign it
		p, err := d.cfg.Loop.Preview(ctx, &job)
		if err != nil {
			return calls.Reply{Lost: true}, nil //nolint:nilerr // tried again by the caller
		}
		return calls.Reply{ChangeReply: calls.ChangeReply{Preview: &p}}, nil
	case c.Rebalance != nil:
		return d.executeRebalance(ctx, *c.Rebalance)
	case c.Trigger != nil:
		return d.executeTrigger(ctx, *c.Trigger)
	}
	if r := c.Retire; r != nil {
		if job, err := d.cfg.View.JobOf(r.Job); err == nil && job.Type.Lasts() {
			return calls.Reply{Error: api.Errorf(api.Conflict, "job %s keeps its tasks running; another one would take this one's place", job.Name)}, nil
		}
	}
	return d.propose(ctx, ledger.Command{Act: c.Act, Update: c.Update, Renew: c.Renew, Retire: c.Retire, Rollout: c.Rollout, Pin: c.Pin, Kept: c.Kept})
}

// settle is how long tasks that are still starting are waited for before a person is asked to: most
// of what an order waits for its answer (orders.AcceptTimeout).
const settle = 2 * time.Second

func (d *Decider) executeRebalance(ctx context.Context, q calls.RebalanceCall) (calls.Reply, error) {
	ask := d.cfg.Loop.Balance
	if q.DryRun {
		ask = d.cfg.Loop.Rebalance
	}
	moves, busy, err := ask(ctx, q.Job)
	for end := time.Now().Add(settle); busy && err == nil && time.Now().Before(end) && pause.For(ctx, settle/20) == nil; {
		moves, busy, err = ask(ctx, q.Job)
	}
	switch {
	case err != nil:
		return calls.Reply{Lost: true}, nil //nolint:nilerr // tried again by the caller
	case busy:
		return calls.Reply{Error: api.Errorf(api.Conflict, "tasks of job %s are still starting; see `peer tasks %s` and try again when they run", q.Job, q.Job)}, nil
	}
	return calls.Reply{ChangeReply: calls.ChangeReply{Moves: moves}}, nil
}
