package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func TestAPeerThatIsStillStartingDoesNotSayHowThingsStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Config{Boot: "this", Up: make(chan struct{}), Now: time.Now, Replica: ledger.NewReplica()}) // has nothing that it could list
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := v.Watch(ctx, "another.7", func(e api.Event) error {
			t.Errorf("told %+v", e)
			return nil
		})
		if err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := v.Watch(t.Context(), "rubbish", nil); api.AsError(err).Code != api.Usage {
			t.Errorf("a token that is none: %v", err)
		}
	})
}

func TestAPeerThatIsStillStartingTellsWhatHappensToItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Config{Boot: "this", Up: make(chan struct{}), Now: time.Now, Replica: ledger.NewReplica()})
		v.hub.append([]event{{kind: kindPeer, state: "alive"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var got []string
		if err := v.Watch(ctx, "this.0", func(e api.Event) error { got = append(got, e.Kind); return nil }); err != nil {
			t.Error(err)
		}
		if len(got) != 1 || got[0] != kindPeer {
			t.Errorf("%v", got)
		}
	})
}

// The peer does not know yet that the job it holds was accepted, or that another has its id.
func TestAJobThatWasAcceptedIsListedOnceThoughItIsHeldUnderItsIdToo(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "one", s.self, 2)
	index := s.assign(someJob, a, 1, 2)
	s.report(a, 1, running(1, index), running(2, index))
	s.held = []Held{{Job: taskstate.Job{ID: someJob, Name: "one", Count: 2}}}
	list := func() (told []string) {
		t.Helper()
		if err := s.listEvents(func(e event) error {
			if e.kind == kindJob || e.kind == kindTask {
				told = append(told, strings.TrimPrefix(fmt.Sprint(e), "0 "))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return told
	}
	id := string(someJob)
	if got, want := list(), []string{"job .0.0 running", "task " + id + ".1.1 running", "task " + id + ".2.1 running"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if rows, err := s.Tasks(timed(t), id); err != nil || rows.Tasks[0].State != "running" {
		t.Errorf("its tasks are %+v, %v", rows.Tasks, err)
	}
	if jobs, err := s.Jobs(timed(t)); err != nil || len(jobs.Jobs) != 1 || jobs.Jobs[0].State != "running" {
		t.Errorf("%+v, %v", jobs.Jobs, err)
	}
	s.write(ledger.Command{Cancel: &ledger.Cancel{Job: someJob, Reason: "by me"}})
	for n := 1; n <= 2; n++ {
		s.settle(a, taskstate.Status{Task: taskstate.Task(someJob, n, 1), Seq: 3, State: taskstate.Shutdown, Index: index, Exit: taskstate.NoExit})
	}
	for _, e := range list() {
		if strings.HasPrefix(e, "task ") {
			t.Errorf("a task of a job that is over is listed: %s", e)
		}
	}
}
