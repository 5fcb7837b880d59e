package node

import (
	"testing"
	"time"

	"covey/taskstate"
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
	if row, err := other.Cancel(timed(t), id); err != nil || row.State != "shutdown" {
		t.Fatalf("%+v, %v", row, err)
	}
	for _, l := range all {
		if row, _ := l.outcome(id); row.State != "shutdown" || row.Cancelled == "" {
			t.Errorf("at %s: %+v", l.name, row)
		}
	}
	eventually(t, "nothing is to be recalled any more", func() (bool, string) { return len(other.held.Withdrawals()) == 0, "" })
}
