package view

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// Between two lines about a job that goes on there is a pause, whatever happens to the job
// meanwhile; only its end cuts it short.
func TestAPauseBetweenTwoLinesEndsEarlyOnlyWithTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		evs  []event
		want time.Duration
	}{
		"nothing":      {nil, progressEvery},
		"a cancel":     {[]event{{kind: kindJob, job: "j", state: "cancelled"}}, progressEvery},
		"another job":  {[]event{{kind: kindJob, job: "k", state: "complete"}}, progressEvery},
		"its end":      {[]event{{kind: kindJob, job: "j", state: "shutdown"}}, 0},
		"events, lost": {make([]event, 2*hubSize), progressEvery},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replica := ledger.NewReplica()
				v := New(Config{Boot: "boot", Now: time.Now, Replica: replica, Table: taskstate.NewTable(replica, 0)})
				submitted := ledger.Command{Submit: &ledger.Submit{Job: noopJob("j", 2, time.Hour)}}
				submitted.Submit.Job.ID = "j"
				v.cfg.Replica.(*ledger.Replica).Apply(ledger.Entry{Index: 1, Epoch: taskstate.At(1, 1), Commands: []ledger.Command{submitted}})
				f := follower{view: v, job: "j"}
				v.hub.append(c.evs)
				start := time.Now()
				if err := f.pause(context.Background(), start); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d != c.want {
					t.Errorf("paused for %v, want %v", d, c.want)
				}
			})
		})
	}
}
