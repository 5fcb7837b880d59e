package node

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// serviceJob keeps n no-ops running.
func serviceJob(name string, n int) taskstate.Job {
	j := taskstate.Job{Name: name, Type: taskstate.ServiceJob, Count: n}
	j.Run.Noop = &taskstate.Noop{Duration: time.Hour.Milliseconds()}
	j.Update = &taskstate.Update{Monitor: 50}
	jobfile.Defaults(&j)
	return j
}

// becomes waits until a job is as it should be, at this peer.
func (l *living) becomes(id, what string, ok func(api.Job) bool) api.Job {
	l.t.Helper()
	var last api.Job
	eventually(l.t, what, func() (bool, string) {
		a, err := l.Job(timed(l.t), id)
		if err != nil {
			return false, err.Error()
		}
		last = a.Job
		return ok(a.Job), a.Job.State
	})
	return last
}

func (l *living) runs(id string, version, n int) {
	l.t.Helper()
	l.becomes(id, "all run", func(j api.Job) bool {
		return j.Version == version && j.Tasks["running"] == n && j.Tasks["pending"] == 0 && (j.Rollout == nil || j.Rollout.State == "completed" || j.Rollout.State == "rolled-back")
	})
}

func fields(changes []taskstate.Change) (out []string) {
	for _, c := range changes {
		out = append(out, c.Field)
	}
	return out
}

func TestASubmissionWithTheNameOfAServiceIsAnUpdateOfIt(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	two := all[1] // which does not coordinate
	web := serviceJob("web", 2)
	id := two.submit(web)
	two.runs(id, 1, 2)
	same, err := two.Submit(timed(t), api.Submit{Job: web})
	if err != nil || same.ID != id || !same.Updated || len(same.Changes) != 0 || same.Version != 1 {
		t.Errorf("the same again: %+v, %v", same, err)
	}
	web.Count = 3
	grown, err := all[0].Submit(timed(t), api.Submit{Job: web})
	if err != nil || grown.ID != id || grown.Version != 1 || !slices.Equal(fields(grown.Changes), []string{"count"}) || grown.Changes[0].Restarts {
		t.Errorf("one more: %+v, %v", grown, err)
	}
	two.runs(id, 1, 3)
	web.Run.Noop = &taskstate.Noop{Duration: 2 * time.Hour.Milliseconds()}
	p, err := two.Preview(timed(t), api.Submit{Job: web})
	if err != nil || !p.Update || p.ID != id || p.Version != 2 || !slices.Equal(fields(p.Changes), []string{"run"}) || p.Tasks != 3 || p.Waiting != 0 {
		t.Errorf("what it would do: %+v, %v", p, err)
	}
	updated, err := two.Submit(timed(t), api.Submit{Job: web})
	if err != nil || updated.Version != 2 || !updated.Changes[0].Restarts {
		t.Errorf("another spec: %+v, %v", updated, err)
	}
	two.runs(id, 2, 3)
	past, err := two.AllTasks(timed(t), id)
	if err != nil || len(past.Tasks) != 6 || !past.Tasks[0].Earlier || past.Tasks[0].Version != 1 || past.Tasks[1].Version != 2 {
		t.Errorf("its attempts: %+v, %v", past.Tasks, err)
	}
	two.goesBack(id)
	other := serviceJob("web", 0)
	other.Type, other.Count = taskstate.GlobalJob, 0
	_, err = two.Submit(timed(t), api.Submit{Job: other})
	wants(t, err, api.Conflict, `"web"`, "service job "+id, "peer cancel web")
	plain := noopJob("web", 1, 0) // names of batch jobs are anybody's
	if s, err := two.Submit(timed(t), api.Submit{Job: plain}); err != nil || s.Updated || s.ID == id {
		t.Errorf("a batch job: %+v, %v", s, err)
	}
}

func (l *living) goesBack(id string) {
	l.t.Helper()
	for _, action := range []string{api.PauseRollout, api.ContinueRollout} {
		_, err := l.Rollout(timed(l.t), id, api.RolloutRequest{Action: action})
		wants(l.t, err, api.Conflict, "is not being updated")
	}
	if _, err := l.Rollout(timed(l.t), id, api.RolloutRequest{Action: api.RollBack}); err != nil {
		l.t.Fatal(err)
	}
	l.runs(id, 3, 3)
	_, err := l.Rollout(timed(l.t), id, api.RolloutRequest{Action: api.RollBack})
	wants(l.t, err, api.Conflict, "nothing to go back to", "submit the file")
	_, err = l.Rollout(timed(l.t), id, api.RolloutRequest{Action: "explode"})
	wants(l.t, err, api.Usage, "pause, continue or rollback")
}

// Each of them may have asked before it heard of the other's: there is one service in the end, and
// all know it by the same id.
func TestPeersThatSubmitTheSameServiceAtOnceMakeOneOfIt(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	var wg sync.WaitGroup
	ids := make([]string, 6)
	for i := range ids {
		wg.Go(func() {
			s, err := all[i%2].Submit(timed(t), api.Submit{Job: serviceJob("web", 1)})
			if err != nil {
				t.Error(err)
			}
			ids[i] = s.ID
		})
	}
	wg.Wait()
	if slices.Sort(ids); ids[0] != ids[5] || ids[0] == "" {
		t.Errorf("%q", ids)
	}
}

func TestAServiceIsScaledAndOnlyAService(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	id := l.submit(serviceJob("web", 1))
	for _, n := range []int{3, 0, 2} {
		if s, err := l.Scale(timed(t), "web", api.Scale{Count: n}); err != nil || s.ID != id || s.Version != 1 {
			t.Fatalf("to %d: %+v, %v", n, s, err)
		}
		l.runs(id, 1, n)
		if ts, err := l.Tasks(timed(t), id); err == nil && n > 0 && len(ts.Tasks) != n {
			t.Errorf("%d tasks are shown, want %d", len(ts.Tasks), n)
		}
	}
	_, err := l.Scale(timed(t), "web", api.Scale{Count: -1})
	wants(t, err, api.Usage, "count")
	l.submit(noopJob("batch", 2, 0))
	_, err = l.Scale(timed(t), "batch", api.Scale{Count: 1})
	wants(t, err, api.Usage, "only a service is scaled")
	_, err = l.Rollout(timed(t), "batch", api.RolloutRequest{Action: api.PauseRollout})
	wants(t, err, api.Usage, "has no versions")
	_, err = l.Rebalance(timed(t), "batch", true)
	wants(t, err, api.Usage, "only a service is rebalanced")
	_, err = l.Cancel(timed(t), "web.1")
	wants(t, err, api.Conflict, "peer scale web=N")
	if r, err := l.Rebalance(timed(t), "web", false); err != nil || len(r.Moves) != 0 {
		t.Errorf("alone there is nothing to move: %+v, %v", r, err)
	}
}

func TestTheJobsToWaitForMayBeNamedAsAPersonDoes(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	first := l.submit(noopJob("first", 1, time.Hour))
	j := noopJob("second", 1, 0)
	j.After = []taskstate.JobID{"first", "last", taskstate.JobID(first[:6]), taskstate.JobID(first)}
	second := l.submit(j)
	spec, err := l.JobOf(taskstate.JobID(second))
	if err != nil || len(spec.After) != 1 || string(spec.After[0]) != first {
		t.Errorf("%v, %v", spec.After, err)
	}
	eventually(t, "the second waits for the first", func() (bool, string) { // where a disk is slow, a lone voter may be between two terms
		row, err := l.Job(timed(t), second)
		ok := err == nil && len(row.Job.After) == 1 && row.Job.After[0].Name == "first" && strings.Contains(row.Job.Waiting, "first")
		return ok, fmt.Sprintf("%+v, %v", row.Job, err)
	})
	p, err := l.Preview(timed(t), api.Submit{Job: j})
	if err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "when first") {
		t.Errorf("%+v, %v", p, err)
	}
	j.After = []taskstate.JobID{"nosuch"}
	_, err = l.Submit(timed(t), api.Submit{Job: j})
	wants(t, err, api.NotFound, `after: no job "nosuch"`)
}

func TestAJobDoesNotWaitForOneWhoseIdOnlyHappensToBeginLikeAName(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	first := l.submit(noopJob("a", 1, time.Hour))
	j := noopJob("second", 1, 0)
	for k := 1; k < 4; k++ {
		j.After = []taskstate.JobID{taskstate.JobID(first[:k])}
		if first[:k] == "a" {
			continue // by chance its name
		}
		_, err := l.Submit(timed(t), api.Submit{Job: j})
		wants(t, err, api.NotFound, `after: no job "`+first[:k]+`"`)
		_, err = l.Preview(timed(t), api.Submit{Job: j})
		wants(t, err, api.NotFound)
	}
	for _, word := range []string{"a", first[:4], "last"} {
		j.After = []taskstate.JobID{taskstate.JobID(word)}
		if p, err := l.Preview(timed(t), api.Submit{Job: j}); err != nil || len(p.Notes) != 1 {
			t.Errorf("%s: %+v, %v", word, p, err)
		}
	}
}

func TestWhatDidNotEndWellIsTriedAgain(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	id := l.submit(shellJob("flaky", 3, `test "$COVEY_SLOT" != 2 || test "$COVEY_ATTEMPT" = 2`))
	if job, _ := l.outcome(id); job.Tasks["failed"] != 1 {
		t.Fatalf("%+v", job)
	}
	if r, err := l.Retry(timed(t), id); err != nil || r.Retried != 1 || r.ID != id {
		t.Fatalf("%+v, %v", r, err)
	}
	if job, tasks := l.outcome(id); *job.ExitCode != 0 || tasks[2].Attempt != 2 || tasks[1].Attempt != 1 {
		t.Errorf("%+v %+v", job, tasks)
	}
	if r, err := l.Retry(timed(t), id); err != nil || r.Retried != 0 {
		t.Errorf("nothing is left: %+v, %v", r, err)
	}
	story, err := l.Explain(timed(t), id+".2")
	if err != nil || !slices.ContainsFunc(story.Explain, func(f api.Fact) bool {
		return strings.HasPrefix(f.Text, "retried: attempt 2 follows")
	}) {
		t.Errorf("%+v, %v", story.Explain, err)
	}
}

func TestOneTaskOfManyIsCancelled(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	j := noopJob("parts", 2, 0)
	j.Run.Noop.Duration, j.Resources = time.Hour.Milliseconds(), taskstate.Resources{MilliCPU: 2000}
	id := l.submit(j)
	for _, x := range []struct {
		task string
		code api.Code
		part string
	}{
		{".7", api.NotFound, "no slot 7"},
		{".1.4", api.Conflict, "is in attempt 1, not 4"},
		{".x", api.Usage, "JOB.SLOT"},
	} {
		_, err := l.Cancel(timed(t), id+x.task)
		wants(t, err, x.code, x.part)
	}
	for _, task := range []string{".2", ".1.1"} { // one that waits, one that runs
		if _, err := l.Cancel(timed(t), id+task); err != nil {
			t.Fatal(err)
		}
	}
	job, _ := l.outcome(id)
	if job.State != "shutdown" {
		t.Errorf("all of it was cancelled: %+v", job)
	}
	_, err := l.Cancel(timed(t), id+".1")
	wants(t, err, api.Conflict, "has ended (shutdown)")
}

func TestOnlyWhatAPersonMayDecideIsDecidedForAPeer(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	worker, submitter, other := newPuppet(t), newPuppet(t), newPuppet(t)
	l.admit(worker, admission.Worker)
	l.admit(submitter, admission.Submit, admission.Admin) // whoever has no more than submit changes its own jobs
	l.admit(other, admission.Submit)
	id := taskstate.JobID(l.submit(serviceJob("web", 1)))
	l.runs(string(id), 1, 1)
	spec, err := l.JobOf(id)
	if err != nil {
		t.Fatal(err)
	}
	broken, slots := *spec, []ledger.Slots{{First: 1, N: 1}}
	broken.Count = -1
	for _, x := range []struct {
		name string
		call calls.Call
		code api.Code // "" if it is done
	}{
		{"a retry of another version", calls.Call{Renew: &ledger.Renew{Job: id, Slots: slots, Version: 1, Reason: taskstate.ReasonRetried}}, api.Usage},
		{"a retry at another time", calls.Call{Renew: &ledger.Renew{Job: id, Slots: slots, NotBefore: 1, Reason: taskstate.ReasonRetried}}, api.Usage},
		{"a renewal for a reason of the coordinator's", calls.Call{Renew: &ledger.Renew{Job: id, Slots: slots, Reason: taskstate.ReasonUpdated}}, api.Usage},
		{"more slots than a call may name", calls.Call{Renew: &ledger.Renew{Job: id, Slots: make([]ledger.Slots, calls.MaxRuns+1), Reason: taskstate.ReasonRetried}}, api.Usage},
		{"a retirement for a reason of the coordinator's", calls.Call{Retire: &ledger.Retire{Job: id, Slots: slots, Reason: taskstate.ReasonScaled}}, api.Usage},
		{"a cancel of a service's task", calls.Call{Retire: &ledger.Retire{Job: id, Slots: slots, Reason: taskstate.ReasonCancelled}}, api.Conflict},
		{"an update said to be complete", calls.Call{Rollout: &ledger.Rollout{Job: id, State: taskstate.RolloutCompleted}}, api.Usage},
		{"a pause of nothing", calls.Call{Rollout: &ledger.Rollout{Job: id, State: taskstate.RolloutPaused}}, api.Conflict},
		{"a spec that is none", calls.Call{Update: &ledger.Update{Job: broken}}, api.Usage},
		{"an update of nothing", calls.Call{Update: &ledger.Update{Job: taskstate.Job{}}}, api.Usage},
		{"an update of what has moved on", calls.Call{Update: &ledger.Update{Job: *spec, From: 7}}, api.Conflict},
		{"two things at once", calls.Call{Update: &ledger.Update{Job: *spec}, Preview: &calls.PreviewCall{Job: *spec}}, api.Usage},
		{"a preview of nothing", calls.Call{Preview: &calls.PreviewCall{}}, api.Usage},
		{"a preview", calls.Call{Preview: &calls.PreviewCall{Job: *spec}}, ""},
		{"a plan to rebalance", calls.Call{Rebalance: &calls.RebalanceCall{Job: id, DryRun: true}}, ""},
		{"a rebalance without a job", calls.Call{Rebalance: &calls.RebalanceCall{}}, api.Usage},
		{"a run of what has no schedule", calls.Call{Trigger: &calls.TriggerCall{Job: id, Run: taskstate.NewJobID()}}, api.NotFound},
		{"a run without an id", calls.Call{Trigger: &calls.TriggerCall{Job: id, Run: "x"}}, api.Usage},
		{"an update", calls.Call{Update: &ledger.Update{Job: *spec}}, ""},
	} {
		x.call.From = submitter.Self()
		r := submitter.asks(l.self, x.call)
		if got := api.Code(""); r.Error != nil {
			if got = r.Error.Code; got != x.code {
				t.Errorf("%s: %v", x.name, r.Error)
			}
		} else if x.code != "" || r.Lost {
			t.Errorf("%s was done: %+v", x.name, r)
		}
		x.call.From = worker.Self()
		if r := worker.asks(l.self, x.call); r.Error == nil {
			t.Errorf("%s was done for a worker: %+v", x.name, r)
		}
		x.call.From = other.Self()
		if r := other.asks(l.self, x.call); r.Error == nil && x.call.Preview == nil {
			t.Errorf("%s was done for a peer that had not ordered it: %+v", x.name, r)
		}
	}
	if r := submitter.asks(l.self, calls.Call{From: submitter.Self(), Preview: &calls.PreviewCall{Job: *spec}}); r.Preview == nil {
		t.Errorf("the answer to a preview does not travel: %+v", r)
	}
}

func TestARefusedChangeSaysWhyAndWhatToType(t *testing.T) {
	t.Parallel()
	id := taskstate.JobID("k3v5q7x2ab")
	spec := taskstate.Job{ID: id, Name: "web"}
	update, renew := ledger.Command{Update: &ledger.Update{Job: spec}}, ledger.Command{Renew: &ledger.Renew{Job: id}}
	rollout, submit := ledger.Command{Rollout: &ledger.Rollout{Job: id, Version: 2}}, ledger.Command{Submit: &ledger.Submit{Job: spec}}
	for _, x := range []struct {
		cmd  ledger.Command
		r    ledger.Result
		code api.Code
		part string
	}{
		{submit, ledger.Result{Refused: ledger.CodeConflict, Job: "abc"}, api.Conflict, "another job abc"},
		{submit, ledger.Result{Refused: ledger.CodeConflict}, api.Conflict, "submit again"},
		{submit, ledger.Result{Refused: ledger.CodeUnknown, Missing: "abc"}, api.NotFound, "after: job abc"},
		{submit, ledger.Result{Refused: ledger.CodeInvalid}, api.Usage, "does not take"},
		{update, ledger.Result{Refused: ledger.CodeConflict, Version: 4}, api.Conflict, "to version 4"},
		{update, ledger.Result{Refused: ledger.CodeOver}, api.Conflict, "submit it again"},
		{update, ledger.Result{Refused: ledger.CodeUnknown}, api.NotFound, "peer jobs"},
		{update, ledger.Result{Refused: ledger.CodeInvalid}, api.Conflict, "type, name"},
		{renew, ledger.Result{Refused: ledger.CodeOver}, api.Conflict, "peer wait"},
		{renew, ledger.Result{Refused: ledger.CodeConflict, Job: "abc"}, api.Conflict, "job abc now has the name of"},
		{rollout, ledger.Result{Refused: ledger.CodeConflict, Version: 2}, api.Conflict, "not being updated"},
		{rollout, ledger.Result{Refused: ledger.CodeConflict, Version: 3}, api.Conflict, "to version 3"},
		{rollout, ledger.Result{Refused: ledger.CodeUnknown, Version: 2}, api.Conflict, "nothing to go back to"},
		{ledger.Command{Retire: &ledger.Retire{Job: id}}, ledger.Result{Refused: ledger.CodeOver}, api.Conflict, "is over"},
	} {
		r := calls.AnswerTo(x.cmd, x.r, 7)
		if r.Error == nil || r.Index != 7 {
			t.Errorf("%+v: %+v", x.r, r)
			continue
		}
		wants(t, r.Error, x.code, x.part)
	}
	if r := calls.AnswerTo(update, ledger.Result{Refused: ledger.CodeConflict, Version: 4}, 7); !r.Moved || r.Version != 4 {
		t.Errorf("%+v", r)
	}
	if r := calls.AnswerTo(renew, ledger.Result{Refused: ledger.CodePartly, Slots: []ledger.Slots{{First: 1, N: 3}, {First: 9, N: 1}}}, 7); r.Error != nil || r.Partly != 4 {
		t.Errorf("%+v", r)
	}
}

func TestWithoutACoordinatorNothingIsChanged(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	web := serviceJob("web", 1)
	web.ID = "web2345abc"
	s.write(ledger.Command{Submit: &ledger.Submit{Job: web}})
	web.Count = 2
	web.ID = ""
	_, err := s.Submit(timed(t), api.Submit{Job: web})
	if e := (*api.Error)(nil); !errors.As(err, &e) || e.Code != api.NoCoordinator || !strings.Contains(e.Message, "was not updated") {
		t.Errorf("%v", err)
	}
	if len(s.held.List()) != 0 {
		t.Error("an update is held: who knows what it would meet")
	}
}

func TestAnUpdateWhoseAnswerWasLostSaysWhatItChangedAllTheSame(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	web := serviceJob("web", 1)
	id := all[1].submit(web)
	lost := make(chan struct{}, 1)
	all[0].host.Handle(calls.Protocol, func(peer string, c net.Conn) {
		select {
		case lost <- struct{}{}: // done, and gone before the answer
			defer c.Close()
			var q calls.Signed
			if err := wire.NewReader(c, 0).Read(&q); err == nil {
				_ = all[0].line.Answer(timed(t), peer, q)
			}
		default:
			all[0].line.Serve(timed(t), peer, c)
		}
	})
	web.Timeout, web.Run.Noop = 0, &taskstate.Noop{Duration: time.Minute.Milliseconds()}
	s, err := all[1].Submit(timed(t), api.Submit{Job: web})
	if err != nil || s.ID != id || s.Version != 2 || !slices.Equal(fields(s.Changes), []string{"run"}) {
		t.Errorf("%+v, %v", s, err)
	}
	if len(lost) != 1 {
		t.Error("no answer was lost")
	}
}
