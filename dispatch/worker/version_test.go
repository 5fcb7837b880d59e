package worker

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// versioned is a body of one version of a job, and a grant of it.
func versioned(version, slot, attempt int) (taskstate.Job, session.Grant) {
	j := testJob(jobWork)
	j.Type, j.Version, j.Timeout = taskstate.ServiceJob, version, int64(version)*1000
	j.Unreachable.Wait = true // marked as begun only when it begins
	return j, session.Grant{Job: jobWork, Index: uint64(attempt), Version: version, Slots: []ledger.Slots{{First: slot, N: 1, Attempt: attempt}}}
}

func TestATaskRunsTheVersionItWasGivenAlsoBesideAnother(t *testing.T) {
	b := newBox(t)
	one, first := versioned(1, 1, 1)
	two, second := versioned(2, 2, 1)
	b.session(1)
	b.down(session.Down{Assignments: &session.Assignments{AppliesTo: 1, ResultsIn: 2, Epoch: b.core.stream.epoch, Jobs: []taskstate.Job{one}, Grants: []session.Grant{first}}})
	b.down(session.Down{Assignments: &session.Assignments{AppliesTo: 2, ResultsIn: 3, Epoch: b.core.stream.epoch, Jobs: []taskstate.Job{two}, Grants: []session.Grant{second}}})
	b.settle()
	for slot, version := range map[int]int{1: 1, 2: 2} {
		if got := b.running[wtask(jobWork, slot)]; got.Job == nil || got.Job.Timeout != int64(version)*1000 {
			t.Errorf("slot %d runs %+v, want version %d", slot, got.Job, version)
		}
	}
}

func TestAVersionThatWasNeverSentIsAskedFor(t *testing.T) {
	b := newBox(t)
	one, first := versioned(1, 1, 1)
	_, second := versioned(2, 2, 1)
	b.session(1)
	b.down(session.Down{Assignments: &session.Assignments{AppliesTo: 1, ResultsIn: 2, Epoch: b.core.stream.epoch, Jobs: []taskstate.Job{one}, Grants: []session.Grant{first}}})
	b.ups = nil
	b.down(session.Down{Assignments: &session.Assignments{AppliesTo: 2, ResultsIn: 3, Epoch: b.core.stream.epoch, Grants: []session.Grant{second}}})
	for _, u := range b.ups {
		if u.Resync != nil {
			return
		}
	}
	t.Errorf("it said %+v, and asked for no complete set", b.ups)
}

func TestAfterARestartAQueuedTaskStillRunsItsOwnVersion(t *testing.T) {
	b := newBox(t)
	one, first := versioned(1, 1, 1)
	two, second := versioned(2, 2, 1)
	first.Slots[0].N = 1
	b.session(1)
	b.down(session.Down{Assignments: &session.Assignments{
		AppliesTo: 1, ResultsIn: 2, Epoch: b.core.stream.epoch, Jobs: []taskstate.Job{one, two}, Grants: []session.Grant{first, second},
	}})
	third := second
	third.Slots = []ledger.Slots{{First: 3, N: 1, Attempt: 1}}
	b.down(session.Down{Assignments: &session.Assignments{AppliesTo: 2, ResultsIn: 3, Epoch: b.core.stream.epoch, Grants: []session.Grant{third}}})
	b.settle() // two run, the third waits for its turn
	b.crash(true)
	b.open()
	b.down(welcomeIn(1))
	b.settle()
	b.down(session.Down{Assignments: &session.Assignments{Complete: true, ResultsIn: 1, Epoch: b.core.stream.epoch, Jobs: []taskstate.Job{one, two}, Grants: []session.Grant{first, second, third}}})
	b.settle()
	got := b.running[wtask(jobWork, 3)]
	if got.Job == nil || got.Job.Version != 2 {
		t.Errorf("slot 3 runs %+v, want version 2; running: %v", got.Job, b.sorted())
	}
}
