package node

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/taskstate"
)

// The answer to a submission can be lost on its way back: then the job is held here, and accepted
// there.
func TestAHeldJobThatWasAcceptedAllTheSameIsCancelledThere(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "voter", "other")
	other := all[1]
	job := noopJob("elsewhere", 1, time.Hour)
	id := other.submit(job)
	job.ID, job.Submitter = taskstate.JobID(id), other.self
	if err := other.held.Put(job, now()); err != nil { // as Submit does when no answer comes
		t.Fatal(err)
	}
	if row, err := other.Cancel(timed(t), id); err != nil || row.Cancelled == "" {
		t.Fatalf("%+v, %v", row, err)
	}
	stopped(t, all, id)
	other.orders.Wake()
	eventually(t, "nothing waits to be handed in any more", func() (bool, string) { return len(other.held.List()) == 0, "" })
}

// It can also be under way still when the job is cancelled.
func TestAJobThatComesToTheLedgerAfterItWasCancelledHereIsCancelledThere(t *testing.T) {
	long.Test(t)
	t.Parallel()
	all := clusterOf(t, "voter", "other")
	other := all[1]
	job := noopJob("late", 1, time.Hour)
	job.ID, job.Submitter = "latelatela", other.self
	if err := other.line.Signer().Order(&job, nil); err != nil {
		t.Fatal(err)
	}
	if err := other.held.Put(job, now()); err != nil {
		t.Fatal(err)
	}
	if row, err := other.Cancel(timed(t), string(job.ID)); err != nil || row.State != "shutdown" {
		t.Fatalf("%+v, %v", row, err)
	}
	if _, err := other.line.Decide(timed(t), calls.Call{Submit: &job, Again: true}); err != nil {
		t.Fatal(err)
	}
	stopped(t, all, string(job.ID))
	eventually(t, "nothing is to be recalled any more", func() (bool, string) { return len(other.held.Withdrawals()) == 0, "" })
}

// stopped waits until everybody knows the job as one that was cancelled and is over.
func stopped(t *testing.T, all []*living, id string) {
	t.Helper()
	for _, l := range all {
		if row, _ := l.outcome(id); row.State != "shutdown" || row.Cancelled == "" {
			t.Errorf("at %s: %+v", l.name, row)
		}
	}
}
