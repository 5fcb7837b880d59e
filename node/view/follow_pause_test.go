package view

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
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

func TestWhoFollowsAJobIsToldOfAPeerOfItThatDiesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t)
		a := s.newAuthor()
		s.take(someJob, "job", s.self, 1)
		index := s.assign(someJob, a, 1, 1)
		s.report(a, 1, taskstate.Status{Task: taskstate.Task(someJob, 1, 1), Seq: 1, State: taskstate.Running, Index: index, At: 1000})
		var seen atomic.Pointer[membership.View]
		see := func(v membership.Verdict) {
			seen.Store(&membership.View{Members: []membership.Member{{ID: a.id, Verdict: v}}})
			s.Events.Seen(seen.Load())
		}
		s.cfg.Members = seen.Load
		see(membership.Alive)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(10*time.Second, func() { see(membership.Dead) })
		told := time.Duration(0)
		begun := time.Now()
		_ = s.Follow(ctx, string(someJob), true, func(p api.Progress) error {
			if len(p.Job.Unreachable) == 1 && told == 0 {
				told = time.Since(begun)
			}
			return nil
		})
		if told < 10*time.Second || told > 20*time.Second {
			t.Errorf("it died after 10 s, and that is told after %v", told)
		}
	})
}

func TestAClientThatFollowsAJobHearsWhyOneOfItsTasksIsInLineWhileOthersRun(t *testing.T) {
	const why = "1 task waits: in line on self, where 1 of 1 cpus are busy"
	for state, want := range map[taskstate.State]string{taskstate.Accepted: why, taskstate.Running: ""} {
		synctest.Test(t, func(t *testing.T) {
			s := newScripted(t)
			a := s.newAuthor()
			s.take(someJob, "job", s.self, 2)
			index := s.assign(someJob, a, 1, 2)
			s.report(a, 1,
				taskstate.Status{Task: taskstate.Task(someJob, 1, 1), Seq: 1, State: taskstate.Running, Index: index, At: 1000},
				taskstate.Status{Task: taskstate.Task(someJob, 2, 1), Seq: 1, State: state, Index: index, At: 1000})
			s.cfg.Ask = func(context.Context, calls.ClusterCall) *calls.ClusterView { return &calls.ClusterView{Waiting: why} }
			ctx, cancel := context.WithTimeout(t.Context(), 3*whyEvery)
			defer cancel()
			heard := ""
			_ = s.Follow(ctx, string(someJob), true, func(p api.Progress) error {
				heard = p.Job.Waiting
				return nil
			})
			if heard != want {
				t.Errorf("with a task that is %s: %q, want %q", state, heard, want)
			}
		})
	}
}
