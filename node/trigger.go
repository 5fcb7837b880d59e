package node

import (
	"context"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/view"
	"covey/taskstate"
)

// triggerCall asks for a run of a schedule now. Whoever asks draws its id, so that asking again is the same run.
type triggerCall struct {
	Job taskstate.JobID `cbor:"1,keyasint"`
	Run taskstate.JobID `cbor:"2,keyasint"`
}

// Trigger implements api.ChangeBackend.
func (n *Node) Trigger(ctx context.Context, id string) (api.Submitted, error) {
	job, err := n.decidedJob(ctx, id)
	if err == nil && job.Origin != nil { // a run has the name of its schedule
		job, err = n.jobOf(job.Origin.Job)
	}
	if err != nil {
		return api.Submitted{}, err
	}
	if job.Schedule == nil {
		return api.Submitted{}, api.Errorf(api.Usage, "job %s has no schedule; what has one is started by its name, anything else is submitted again", id)
	}
	run := taskstate.NewJobID()
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	r, err := n.decide(try, call{Trigger: &triggerCall{Job: job.ID, Run: run}})
	if err != nil {
		return api.Submitted{}, n.undecided(err, "nothing was started")
	}
	_ = n.view.Reach(try, r.Index)
	return api.Submitted{ID: string(run)}, nil
}

// executeTrigger starts a run of a schedule for now, by the ledger's clock, as coordinator. As with any start, the schedule's overlap says whether it
// may run beside one that goes on. That is asked first, so that nothing is recorded as skipped, and again where it is decided.
func (n *Node) executeTrigger(ctx context.Context, q triggerCall) (reply, error) {
	for {
		run, beside, why := n.triggered(q)
		switch {
		case why != nil:
			return reply{Error: why}, nil
		case beside == q.Run: // it was started; only the answer was lost
			return reply{Index: n.replica.Applied()}, nil
		case beside != "":
			return reply{Error: errBeside(beside)}, nil
		}
		submit := ledger.Command{Submit: &ledger.Submit{Job: run}}
		index, results, err := n.ledger.Propose(ctx, []ledger.Command{submit})
		if err != nil {
			return reply{Lost: true}, nil //nolint:nilerr // whoever asks tries again, at the next coordinator
		}
		switch r := results[0]; {
		case r.Skipped: // another one was started meanwhile
			return reply{Error: errBeside(r.Job), Index: index}, nil
		case r.Existed && r.Refused == ledger.CodeOver && n.view.Reach(ctx, index) == nil: // another one was started for the same millisecond
			continue
		default:
			return answerTo(submit, r, index), nil
		}
	}
}

// triggered is the run that is to be started, and the one that it may not run beside, "" if there is none: its own id if it runs already.
func (n *Node) triggered(q triggerCall) (run taskstate.Job, beside taskstate.JobID, why *api.Error) {
	n.replica.Read(func(s *ledger.State) {
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
		run = *parent.Job()
		at := max(time.Now().UnixMilli(), s.Stamp(), parent.StartsFrom()+1)
		run.ID, run.Schedule, run.After, run.Origin = q.Run, nil, nil, &taskstate.Origin{Job: q.Job, At: at}
		if r := s.RunBeside(run.Origin); r != nil {
			beside = r.Job().ID
		}
	})
	return run, beside, why
}

func errBeside(run taskstate.JobID) *api.Error {
	return api.Errorf(api.Conflict, "its run %s goes on, and the schedule allows no other beside it; cancel that one, or wait for it (`peer wait %s`)", run, run)
}
