package view

import (
	"context"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func (b *storyBook) live(t *testing.T, word, want string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is not known here is not to be found elsewhere
	if got, held, err := b.FindLive(ctx, word); string(got) != want || held != nil || err != nil {
		t.Errorf("%s means %q, %v, %v; want %q", word, got, held, err, want)
	}
}

func batch(id taskstate.JobID, name string) taskstate.Job {
	return taskstate.Job{ID: id, Name: name, Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
}

func TestTheNameOfAScheduleMeansTheScheduleAsLongAsItGoesOn(t *testing.T) {
	b := newStoryBook(t)
	parent, run := batch("nightly222", "nightly"), batch("run2222222", "nightly")
	parent.Schedule, run.Origin = &taskstate.Schedule{Cron: "0 3 * * *"}, &taskstate.Origin{Job: parent.ID, At: 5000}
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: parent}})
	b.decide(ledger.Command{Submit: &ledger.Submit{Job: run}})
	b.live(t, "nightly", string(parent.ID))
	for _, word := range []string{"run2222222", "run22"} {
		b.live(t, word, string(run.ID))
	}
	b.decide(ledger.Command{Cancel: &ledger.Cancel{Job: parent.ID}})
	b.live(t, "nightly", string(run.ID))
}

func TestANameMeansTheJobThatGoesOnAndOfSeveralNone(t *testing.T) {
	b := newStoryBook(t)
	for _, id := range []taskstate.JobID{"older22222", "middle2222", "newest2222"} {
		b.decide(ledger.Command{Submit: &ledger.Submit{Job: batch(id, "python3")}})
	}
	_, _, err := b.FindLive(t.Context(), "python3")
	if e := api.AsError(err); e.Code != api.Conflict || !strings.Contains(e.Message, "older22222") || !strings.Contains(e.Message, "newest2222") {
		t.Errorf("of three that go on: %v", err)
	}
	b.decide(ledger.Command{Cancel: &ledger.Cancel{Job: "newest2222"}})
	b.decide(ledger.Command{Cancel: &ledger.Cancel{Job: "middle2222"}})
	b.live(t, "python3", "older22222")
	b.decide(ledger.Command{Cancel: &ledger.Cancel{Job: "older22222"}})
	b.live(t, "python3", "newest2222")
}
