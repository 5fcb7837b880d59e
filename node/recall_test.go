package node

import (
	"testing"
	"time"

	"covey/taskstate"
)

// The answer to a submission can be lost on its way back: then the job is held here, and accepted there.
func TestAHeldJobThatWasAcceptedAllTheSameIsCancelledThere(t *testing.T) {
	all := flockOf(t, "voter", "other")
	other := all[1]
	job := noopJob("elsewhere", 1, time.Hour)
	id := other.submit(job)
	job.ID, job.Submitter = taskstate.JobID(id), other.self
	if err := other.held.put(job, now()); err != nil { // as Submit does when no answer comes
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
	eventually(t, "nothing is to be recalled any more", func() (bool, string) { return len(other.held.withdrawals()) == 0, "" })
}

func TestAWithdrawalOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	h, err := openHeld(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	job := noopJob("gone", 1, 0)
	job.ID = "aaaaaaaaaa"
	if err := h.put(job, 1); err != nil {
		t.Fatal(err)
	}
	if ok, err := h.withdraw(job.ID, "by me"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, _ := h.withdraw(job.ID, "by me"); ok {
		t.Error("withdrawn twice")
	}
	if ok, _ := h.drop(job.ID, false); ok {
		t.Error("dropped as if it had been accepted")
	}
	if h, err = openHeld(dir, nil); err != nil || len(h.list()) != 0 || len(h.withdrawals()) != 1 || h.withdrawals()[0].Withdrawn != "by me" {
		t.Fatalf("%+v, %v", h, err)
	}
	if ok, err := h.drop(job.ID, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if h, err = openHeld(dir, nil); err != nil || len(h.withdrawals()) != 0 {
		t.Fatalf("%+v, %v", h, err)
	}
}
