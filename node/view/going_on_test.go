package view

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func TestTheNameOfAScheduleMeansTheScheduleAsLongAsItGoesOn(t *testing.T) {
	b := newStoryBook(t)
	noop := taskstate.Run{Noop: &taskstate.Noop{}}
	parent := taskstate.Job{ID: "nightly222", Name: "nightly", Type: taskstate.BatchJob, Count: 1, Run: noop, Schedule: &taskstate.Schedule{Cron: "0 3 * * *"}}
	run := taskstate.Job{ID: "run2222222", Name: "nightly", Type: taskstate.BatchJob, Count: 1, Run: noop, Origin: &taskstate.Origin{Job: parent.ID, At: 5000}}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: parent}})
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: run}})
	if got := b.GoingOn("nightly"); got != string(parent.ID) {
		t.Errorf("nightly means %s, want the schedule", got)
	}
	for _, word := range []string{"run2222222", "run", "last", "nobody"} {
		if got := b.GoingOn(word); got != word {
			t.Errorf("%s became %s", word, got)
		}
	}
	b.decide(ledger.Command{Cancel: &ledger.Cancel{Job: parent.ID}})
	if got := b.GoingOn("nightly"); got != "nightly" {
		t.Errorf("nightly means %s, though the schedule is over", got)
	}
}
