package calls

import (
	"cmp"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// AnswerTo words the result of one command.
func AnswerTo(cmd ledger.Command, r ledger.Result, index uint64) Reply {
	switch code := r.Refused; {
	case code == ledger.CodeStale:
		return Reply{Lost: true}
	case code == ledger.CodeLate && cmd.Act != nil && cmd.SetTime == nil:
		return Reply{Lost: true} // its asker signs anew
	case code == ledger.CodeNone, code == ledger.CodePartly:
	case cmd.Submit != nil && r.Existed && code == ledger.CodeOver: // it was accepted, ran and is forgotten; only the answer was lost
	default:
		out := Reply{Error: cmp.Or(refusedChange(cmd, r), Refusal(cmd, code)), Index: index}
		out.told(r)
		return out
	}
	out := Reply{Index: index}
	out.told(r)
	return out
}

// Refusal says why the ledger did not do what was asked.
func Refusal(cmd ledger.Command, code ledger.Code) *api.Error {
	switch {
	case code == ledger.CodeUnsigned:
		return api.Errorf(api.Refused, "the ledger takes this only with the signature of the peer that asks for it")
	case code == ledger.CodeForbidden:
		return api.Errorf(api.Refused, "the peer that asks for this has not the role for it by now; see `peer peers`, and `peer roles`")
	case cmd.Submit != nil && code == ledger.CodeConflict:
		return api.Errorf(api.Conflict, "another job has the id %s; submit again to get a new one", cmd.Submit.Job.ID)
	case cmd.Cancel != nil && code == ledger.CodeOver:
		return api.Errorf(api.Conflict, "job %s is over; there is nothing to cancel", cmd.Cancel.Job)
	case cmd.Cancel != nil && code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no job %s; see `peer jobs`", cmd.Cancel.Job)
	case cmd.Pin != nil && code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no job %s; see `peer jobs`", cmd.Pin.Job)
	case cmd.Pin != nil && code == ledger.CodeInvalid:
		return api.Errorf(api.Conflict, "%d jobs are pinned, and more cannot be; `peer unpin` one first", ledger.MaxPins)
	case cmd.Revoke != nil && code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no ticket %q; see `peer ticket --list`", cmd.Revoke.ID)
	case cmd.Avail != nil:
		return refusedPeer(cmd.Avail.Peer, code)
	case cmd.Set != nil && code == ledger.CodeInvalid:
		return api.Errorf(api.Usage, "these settings would not do together with those that hold; see `peer set`")
	case cmd.SetTime != nil && code == ledger.CodeLate:
		return api.Errorf(api.Conflict, "the ledger's time was set to a later time before, and cannot be set to an earlier one")
	case cmd.Label != nil && code == ledger.CodeInvalid:
		return api.Errorf(api.Usage, "peer %s would have more than %d labels given or taken by people", cmd.Label.Peer, ledger.MaxLabels)
	case cmd.Label != nil:
		return refusedPeer(cmd.Label.Peer, code)
	case cmd.Remove != nil && code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no peer %s; see `peer peers`", cmd.Remove.Peer)
	case cmd.Remove != nil && code == ledger.CodeSole:
		return api.Errorf(api.Conflict, "%s is the only voter: without it nothing could be decided; let another peer join first", cmd.Remove.Peer)
	}
	return api.Errorf(api.Conflict, "the coordinator refused: %s", code)
}

// refusedChange says why the ledger did not change a job; nil for other commands.
func refusedChange(cmd ledger.Command, r ledger.Result) *api.Error {
	id := cmd.Changes()
	switch {
	case cmd.Submit != nil:
		return refusedSubmit(&cmd.Submit.Job, r)
	case id == "", cmd.Cancel != nil, cmd.Pin != nil:
		return nil
	}
	switch code := r.Refused; {
	case code == ledger.CodeForbidden && r.Job != "":
		return api.Errorf(api.Refused, "the key that ordered job %s was revoked, and nothing of it begins again; submit it as your own", id)
	case code == ledger.CodeUnsigned, code == ledger.CodeForbidden:
		return nil
	case code == ledger.CodeBlocked && r.Job != "":
		return api.Errorf(api.Conflict, "job %s comes after job %s, which is not complete; `peer retry %s` first", id, r.Job, r.Job)
	case code == ledger.CodeConflict && r.Job != "":
		return api.Errorf(api.Conflict, "job %s now has the name of job %s, which cannot be started again therefore", r.Job, id)
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
		return ErrTaken(job.Name, r.Job, "another")
	case code == ledger.CodeUnknown && r.Missing != "":
		return api.Errorf(api.NotFound, "after: job %s is not known any more; see `peer jobs`", r.Missing)
	case code == ledger.CodeInvalid:
		return api.Errorf(api.Usage, "the ledger does not take this job: more slots than there may be, or keys that cannot be used together")
	}
	return nil
}

// refusedPeer says why the ledger did not change what a peer is for.
func refusedPeer(id taskstate.PeerID, code ledger.Code) *api.Error {
	switch code {
	case ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no peer %s; see `peer peers`", id)
	case ledger.CodeInvalid:
		return api.Errorf(api.Usage, "the ledger takes no such change of peer %s", id)
	}
	return api.Errorf(api.Conflict, "the coordinator refused: %s", code)
}

// ErrTaken says that a name is that of a job which goes on.
func ErrTaken(name string, id taskstate.JobID, kind string) *api.Error {
	return api.Errorf(api.Conflict, "the name %q is that of %s job %s, which goes on; end that one first (`peer cancel %s`), or take another name", name, kind, id, name)
}
