package node

import (
	"cmp"
	"context"
	"slices"

	"covey/dispatch/coordinator"
	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/taskstate"
	"covey/taskstate/jobfile"
)

// previewCall asks where the tasks of a job would go.
type previewCall struct {
	Job taskstate.Job `cbor:"1,keyasint"`
}

// rebalanceCall asks for the tasks of a service to be spread anew, or which those would be.
type rebalanceCall struct {
	Job    taskstate.JobID `cbor:"1,keyasint"`
	DryRun bool            `cbor:"2,keyasint,omitempty"`
}

// changes lists what of a job a call is to change, and queries about it.
func (c *call) changes() []bool {
	return []bool{c.Update != nil, c.Renew != nil, c.Retire != nil, c.Rollout != nil, c.Preview != nil, c.Rebalance != nil, c.Trigger != nil, c.Pin != nil}
}

// changesJob tells whether a call is about changing a job.
func (c *call) changesJob() bool { return slices.Contains(c.changes(), true) }

// checkChange refuses what no honest peer asks for: only the coordinator itself decides about versions and times of attempts.
func (c *call) checkChange() *api.Error {
	id := func(s taskstate.JobID) *api.Error {
		if s == "" || len(s) > maxCallWord {
			return api.Errorf(api.Usage, "this is no job's id")
		}
		return nil
	}
	switch {
	case c.Update != nil:
		return cmp.Or(id(c.Update.Job.ID), checkSpec(&c.Update.Job))
	case c.Preview != nil:
		return cmp.Or(id(c.Preview.Job.ID), checkSpec(&c.Preview.Job))
	case c.Renew != nil:
		if c.Renew.Version != 0 || c.Renew.NotBefore != 0 || c.Renew.Reason != taskstate.ReasonRetried || len(c.Renew.Slots) > renewRuns {
			return api.Errorf(api.Usage, "this is no retry")
		}
		return id(c.Renew.Job)
	case c.Retire != nil:
		if c.Retire.Reason != taskstate.ReasonCancelled || len(c.Retire.Slots) > renewRuns {
			return api.Errorf(api.Usage, "this is no cancel of tasks")
		}
		return id(c.Retire.Job)
	case c.Rollout != nil:
		asked := []ledger.RolloutState{ledger.Paused, ledger.Updating, ledger.RollingBack}
		if !slices.Contains(asked, c.Rollout.State) || len(c.Rollout.Message) > maxCallReason {
			return api.Errorf(api.Usage, "a rollout is paused, continued or turned back")
		}
		return id(c.Rollout.Job)
	case c.Rebalance != nil:
		return id(c.Rebalance.Job)
	case c.Pin != nil:
		return id(c.Pin.Job)
	case c.Trigger != nil:
		return cmp.Or(id(c.Trigger.Job), checkRunID(c.Trigger.Run))
	}
	return nil
}

// checkRunID refuses an id that no job has.
func checkRunID(id taskstate.JobID) *api.Error {
	if err := jobfile.ValidID(id); err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	return nil
}

func checkSpec(j *taskstate.Job) *api.Error {
	if err := jobfile.Validate(j); err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	return nil
}

// executeChange decides a call about a job that is there, as coordinator.
func (n *Node) executeChange(ctx context.Context, c call) (reply, error) {
	switch {
	case c.Preview != nil:
		p, err := n.coord.Preview(ctx, &c.Preview.Job)
		if err != nil {
			return reply{Lost: true}, nil //nolint:nilerr // tried again by whoever asks
		}
		return reply{changeReply: changeReply{Preview: &p}}, nil
	case c.Rebalance != nil:
		return n.executeRebalance(ctx, *c.Rebalance)
	case c.Trigger != nil:
		return n.executeTrigger(ctx, *c.Trigger)
	}
	if r := c.Retire; r != nil {
		if job, err := n.jobOf(r.Job); err == nil && job.Type.Lasts() {
			return reply{Error: api.Errorf(api.Conflict, "job %s keeps its tasks running; another one would take this one's place", job.Name)}, nil
		}
	}
	return n.propose(ctx, ledger.Command{Update: c.Update, Renew: c.Renew, Retire: c.Retire, Rollout: c.Rollout, Pin: c.Pin})
}

func (n *Node) executeRebalance(ctx context.Context, q rebalanceCall) (reply, error) {
	ask := n.coord.Balance
	if q.DryRun {
		ask = n.coord.Rebalance
	}
	moves, busy, err := ask(ctx, q.Job)
	switch {
	case err != nil:
		return reply{Lost: true}, nil //nolint:nilerr // tried again by whoever asks
	case busy:
		return reply{Error: api.Errorf(api.Conflict, "tasks of job %s are on their way just now; see `peer tasks %s` and try again when they run", q.Job, q.Job)}, nil
	}
	return reply{changeReply: changeReply{Moves: moves}}, nil
}

// told puts into a reply what a result says besides its refusal.
func (r *reply) told(res ledger.Result) {
	r.Job, r.Version = res.Job, res.Version
	r.Moved = res.Refused == ledger.CodeConflict && res.Version != 0
	for _, s := range res.Slots {
		r.Partly += s.N
	}
}

// changeReply is what replies about jobs that are there say.
type changeReply struct {
	Job     taskstate.JobID      `cbor:"20,keyasint,omitempty"` // Submit: the job that has the name
	Version int                  `cbor:"21,keyasint,omitempty"` // that is wanted now
	Moved   bool                 `cbor:"22,keyasint,omitempty"` // refused because another version is wanted by now
	Partly  int                  `cbor:"23,keyasint,omitempty"` // slots of which nothing was done
	Preview *coordinator.Preview `cbor:"24,keyasint,omitempty"`
	Moves   []coordinator.Move   `cbor:"25,keyasint,omitempty"`
}

// refusedChange says why the ledger did not change a job; nil for other commands.
func refusedChange(cmd ledger.Command, r ledger.Result) *api.Error {
	var id taskstate.JobID
	switch {
	case cmd.Submit != nil:
		return refusedSubmit(&cmd.Submit.Job, r)
	case cmd.Update != nil:
		id = cmd.Update.Job.ID
	case cmd.Renew != nil:
		id = cmd.Renew.Job
	case cmd.Retire != nil:
		id = cmd.Retire.Job
	case cmd.Rollout != nil:
		id = cmd.Rollout.Job
	default:
		return nil
	}
	switch code := r.Refused; {
	case code == ledger.CodeConflict && r.Job != "":
		return api.Errorf(api.Conflict, "the name of job %s is that of job %s by now, which goes on; it cannot be begun again", id, r.Job)
	case code == ledger.CodeConflict && cmd.Rollout != nil && r.Version == cmd.Rollout.Version:
		return api.Errorf(api.Conflict, "job %s is not being updated; see `peer rollout %s`", id, id)
	case code == ledger.CodeConflict:
		return api.Errorf(api.Conflict, "job %s was updated meanwhile, to version %d; look at it with `peer job %s` and try again", id, r.Version, id)
	case code == ledger.CodeUnknown && cmd.Rollout != nil && r.Version != 0:
		return api.Errorf(api.Conflict, "job %s has nothing to go back to: there was no version before, or it was turned back already; submit the file you want", id)
	case code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no job %s; see `peer jobs`", id)
	case code == ledger.CodeOver && cmd.Renew != nil:
		return api.Errorf(api.Conflict, "job %s was cancelled; wait for its end (`peer wait %s`), or submit a service again", id, id)
	case code == ledger.CodeOver:
		return api.Errorf(api.Conflict, "job %s is over; submit it again to start it anew", id)
	case code == ledger.CodeInvalid && cmd.Update != nil:
		return api.Errorf(api.Conflict, "job %s cannot become this: type, name and whether it has a schedule stay; cancel it and submit anew", id)
	}
	return nil
}

// refusedSubmit says why a job was not accepted; nil for what every command can be refused for.
func refusedSubmit(job *taskstate.Job, r ledger.Result) *api.Error {
	switch code := r.Refused; {
	case code == ledger.CodeConflict && r.Job != "":
		return errTaken(job.Name, r.Job, "another")
	case code == ledger.CodeUnknown && r.Missing != "":
		return api.Errorf(api.NotFound, "after: job %s is not known any more; see `peer jobs`", r.Missing)
	case code == ledger.CodeInvalid:
		return api.Errorf(api.Usage, "the ledger does not take this job: more slots than there may be, or keys that exclude each other")
	}
	return nil
}
