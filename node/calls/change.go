package calls

import (
	"cmp"
	"slices"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// PreviewCall asks where the tasks of a job would go.
type PreviewCall struct {
	Job taskstate.Job `cbor:"1,keyasint"`
}

// RebalanceCall asks for the tasks of a service to be spread anew, or which those would be.
type RebalanceCall struct {
	Job    taskstate.JobID `cbor:"1,keyasint"`
	DryRun bool            `cbor:"2,keyasint,omitempty"`
}

// changes lists what of a job a call is to change, and queries about it.
func (c *Call) changes() []bool {
	return []bool{c.Update != nil, c.Renew != nil, c.Retire != nil, c.Rollout != nil, c.Preview != nil, c.Rebalance != nil, c.Trigger != nil, c.Pin != nil, c.Kept != nil}
}

// Changes is the job that a call is to change, "" if it changes none that is there.
func (c *Call) Changes() taskstate.JobID {
	switch {
	case c.Cancel != nil:
		return c.Cancel.Job
	case c.Update != nil:
		return c.Update.Job.ID
	case c.Renew != nil:
		return c.Renew.Job
	case c.Retire != nil:
		return c.Retire.Job
	case c.Rollout != nil:
		return c.Rollout.Job
	case c.Rebalance != nil:
		return c.Rebalance.Job
	case c.Trigger != nil:
		return c.Trigger.Job
	case c.Pin != nil:
		return c.Pin.Job
	}
	return ""
}

// ChangesJob tells whether a call is about changing a job.
func (c *Call) ChangesJob() bool { return slices.Contains(c.changes(), true) }

// checkChange refuses what no honest peer asks for: only the coordinator itself decides about
// versions and times of attempts.
func (c *Call) checkChange() *api.Error {
	id := func(s taskstate.JobID) *api.Error {
		if s == "" || len(s) > maxWord {
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
		if c.Renew.Version != 0 || c.Renew.NotBefore != 0 || c.Renew.Reason != taskstate.ReasonRetried || len(c.Renew.Slots) > MaxRuns {
			return api.Errorf(api.Usage, "this is no retry")
		}
		return id(c.Renew.Job)
	case c.Retire != nil:
		if c.Retire.Reason != taskstate.ReasonCancelled || len(c.Retire.Slots) > MaxRuns {
			return api.Errorf(api.Usage, "this is no cancel of tasks")
		}
		return id(c.Retire.Job)
	case c.Rollout != nil:
		asked := []taskstate.RolloutState{taskstate.RolloutPaused, taskstate.RolloutUpdating, taskstate.RolloutRollingBack}
		if !slices.Contains(asked, c.Rollout.State) || len(c.Rollout.Message) > MaxReason {
			return api.Errorf(api.Usage, "expected pause, continue or rollback")
		}
		return id(c.Rollout.Job)
	case c.Rebalance != nil:
		return id(c.Rebalance.Job)
	case c.Pin != nil:
		return id(c.Pin.Job)
	case c.Kept != nil:
		if c.Kept.Peer != c.From || len(c.Kept.Slots) > MaxRuns || len(c.Kept.Lost) > maxLost {
			return api.Errorf(api.Refused, "a peer says of itself only that it keeps files")
		}
		return id(c.Kept.Job)
	case c.Trigger != nil:
		return cmp.Or(id(c.Trigger.Job), checkRunID(c.Trigger.Run))
	}
	return nil
}

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

// told puts into a reply what a result says besides its refusal.
func (r *Reply) told(res ledger.Result) {
	r.Job, r.Version = res.Job, res.Version
	r.Moved = res.Refused == ledger.CodeConflict && res.Version != 0
	for _, s := range res.Slots {
		r.Partly += s.N
	}
}

// ChangeReply is what replies about jobs that are there say.
type ChangeReply struct {
	Job     taskstate.JobID      `cbor:"20,keyasint,omitempty"` // Submit: the job that has the name
	Version int                  `cbor:"21,keyasint,omitempty"` // that is wanted now
	Moved   bool                 `cbor:"22,keyasint,omitempty"` // refused because another version is wanted by now
	Partly  int                  `cbor:"23,keyasint,omitempty"` // slots of which nothing was done
	Preview *coordinator.Preview `cbor:"24,keyasint,omitempty"`
	Moves   []coordinator.Move   `cbor:"25,keyasint,omitempty"`
}

// maxLost bounds how many peers a call says do not keep something any more.
const maxLost = 2 * taskstate.MaxKeep

// MaxRuns bounds the runs of slots in one call, so that it stays below a frame.
const MaxRuns = 4096
