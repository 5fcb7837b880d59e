package decide

import (
	"context"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/taskstate"
)

// executeTrigger starts a run of a schedule for now, by the ledger's clock, as coordinator. As with
// any start, the schedule's overlap says whether it may run beside one that goes on. That is asked
// first, so that nothing is recorded as skipped, and again where it is decided.
func (d *Decider) executeTrigger(ctx context.Context, q calls.TriggerCall) (calls.Reply, error) {
	for {
		run, beside, why := d.triggered(q)
		switch {
		case why != nil:
			return calls.Reply{Error: why}, nil
		case beside == q.Run: // it was started; only the answer was lost
			return calls.Reply{Index: d.cfg.Replica.Applied()}, nil
		case beside != "":
			return calls.Reply{Error: errBeside(beside)}, nil
		}
		submit := ledger.Command{Submit: &ledger.Submit{Job: run}}
		index, results, err := d.cfg.Ledger.Propose(ctx, []ledger.Command{submit})
		if err != nil {
			return calls.Reply{Lost: true}, nil //nolint:nilerr // the caller tries again, at the next coordinator
		}
		switch r := results[0]; {
		case r.Skipped: // another one was started meanwhile
			return calls.Reply{Error: errBeside(r.Job), Index: index}, nil
		case r.Existed && r.Refused == ledger.CodeOver && d.cfg.View.Reach(ctx, index) == nil: // another one was started for the same millisecond
			continue
		default:
			if r.Refused == ledger.CodeUnsigned && q.Order != nil {
				return calls.Reply{Error: api.Errorf(api.Conflict, "the schedule was changed meanwhile; look at it with `peer job %s` and try again", q.Job)}, nil
			}
			return calls.AnswerTo(submit, r, index), nil
		}
	}
}

// triggered is the run that is to be started, and the one that it may not run beside, "" if there
// is none: its own id if it runs already.
func (d *Decider) triggered(q calls.TriggerCall) (run taskstate.Job, beside taskstate.JobID, why *api.Error) {
	d.cfg.Replica.Read(func(s *ledger.State) {
		if r, ok := s.Job(q.Run); ok && r.Job().Origin != nil && r.Job().Origin.Job == q.Job {
			beside = q.Run
			return
		}
		if _, was := s.Forgotten(q.Run); was {
			beside = q.Run
			return
		}
		parent, ok := s.Job(q.Job)
		if !ok || !parent.Scheduled() {
			why = api.AsError(view.ErrNoJob(string(q.Job)))
			return
		}
		if _, _, cancelled := parent.Cancelled(); cancelled {
			why = api.Errorf(api.Conflict, "job %s was cancelled: it starts nothing any more", q.Job)
			return
		}
		run = parent.Job().RunNow(q.Run)
		run.Order, run.Origin.At = q.Order, max(time.Now().UnixMilli(), s.Stamp(), parent.StartsFrom()+1)
		if r := s.RunBeside(run.Origin); r != nil {
			beside = r.Job().ID
		}
	})
	return run, beside, why
}

func errBeside(run taskstate.JobID) *api.Error {
	return api.Errorf(api.Conflict, "its run %s goes on, and the schedule allows no other beside it; cancel that one, or wait for it (`peer wait %s`)", run, run)
}
