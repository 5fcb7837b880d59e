package view

import (
	"context"
	"fmt"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// lastEnded is the newest attempt a slot has left behind that is known to have run to an end;
// without a peer if there is none.
func lastEnded(j *ledger.JobRecord, slot int) ledger.SlotRecord {
	past := j.Past(slot)
	for i := len(past) - 1; i >= 0; i-- {
		if p := past[i]; p.End != nil && (p.End.Exit != taskstate.NoExit || p.End.Signal > 0) {
			return ledger.SlotRecord{Slot: slot, Attempt: p.Attempt, Peer: p.Peer, Final: p.End}
		}
	}
	return ledger.SlotRecord{}
}

// earlierAttempt is an attempt that its slot has left behind; now if it is not remembered.
func earlierAttempt(j *ledger.JobRecord, slot, attempt int, now ledger.SlotRecord) ledger.SlotRecord {
	for _, p := range j.Past(slot) {
		if p.Attempt == attempt {
			return ledger.SlotRecord{Slot: slot, Attempt: attempt, Peer: p.Peer, Final: &taskstate.Status{State: taskstate.Shutdown}}
		}
	}
	return now
}

// endOf is how an attempt ended, as the ledger has it by now; nil if it has not, or if it is not
// the newest of its slot any more.
func (l *logReader) endOf(r ledger.SlotRecord) *taskstate.Status {
	now, _, err := l.attemptOf(r.Slot)
	if err != nil || now.Attempt != r.Attempt {
		return nil
	}
	return now.Final
}

// keepsLogs tells whether what a task said is kept elsewhere than where it ran.
func keepsLogs(end *taskstate.Status) bool {
	return end.Saved != nil && end.Saved.Logs != (taskstate.Saved{}).Logs
}

// fromCopy reads the output of a task that has ended at the peers that may have a copy of it, and
// reports whether one had. The copies of a job are together: the peer that had one is asked first
// for the next.
func (l *logReader) fromCopy(ctx context.Context, ran taskstate.PeerID, req *tasklog.Request, read func(tasklog.Chunk) error) bool {
	var job *taskstate.Job
	l.view.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(l.job); ok {
			job = j.Job()
		}
	})
	if job == nil || !job.PrintsTwice() || l.view.cfg.Copies == nil {
		return false
	}
	l.mu.Lock()
	holders := append([]taskstate.PeerID{l.copied}, l.view.cfg.Copies().Holders(l.job, job.Submitter)...)
	l.mu.Unlock()
	for i, peer := range holders {
		if peer == "" || peer == ran || i > 0 && peer == holders[0] {
			continue
		}
		if l.fetch(ctx, peer, *req, read) == nil {
			l.mu.Lock()
			l.copied = peer
			l.mu.Unlock()
			return true
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return false
}

// wordLogError says why a task's output cannot be read, and what that means for the task.
func (l *logReader) wordLogError(err error, r ledger.SlotRecord) *api.Error {
	who := l.view.Who.Called(r.Peer)
	code, text := api.NoCoordinator, fmt.Sprintf("%s cannot be reached for the output it has (%s); it is there again when that peer is", who, p2p.Why(err))
	switch {
	case tasklog.Refused(err):
		return api.Errorf(api.Refused, "%s does not give it: %v; type it at the peer that submitted the job, or have an admin give this one the role read (`peer roles`)", who, err)
	case tasklog.Failed(err):
		text = who + " cannot give the output it has: " + err.Error()
	case tasklog.NotFound(err):
		code, text = api.NotFound, who+" has no output of this task (it did not begin, or its files were removed)"
	case !l.view.admitted(r.Peer):
		code, text = api.NotFound, fmt.Sprintf("the output of this task was on %s, which is no member any more, and no peer that is here has a copy: it is lost", who)
	}
	end := l.endOf(r)
	if end == nil {
		return api.Errorf(code, "%s", text)
	}
	if keepsLogs(end) {
		var others []string
		for _, id := range end.Saved.Keepers {
			if id != r.Peer {
				others = append(others, l.view.Who.Called(id))
			}
		}
		text += "; no other peer keeps it"
		if len(others) > 0 {
			text += fmt.Sprintf("; it is kept by %s, too, and none of them gives it now: type it again when one of them is back", spell.Enumerate(others))
			code = api.NoCoordinator
		}
	}
	if end.State == taskstate.Complete {
		text += ". The task itself is complete"
	}
	return api.Errorf(code, "%s", text)
}

// admitted tells whether a peer is a member.
func (v *View) admitted(peer taskstate.PeerID) bool {
	for _, m := range v.Who.Admitted() {
		if m.Entry.Peer == peer {
			return true
		}
	}
	return false
}
