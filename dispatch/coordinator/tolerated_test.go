package coordinator

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// updatedService has a service of some replicas run on peer a and updates it; every slot restarts
// for ever, as services do by default.
func updatedService(t *testing.T, count int, u taskstate.Update) *rig {
	r := newRig(t, CoreConfig{})
	u.Parallelism, u.Monitor = 1, 1000
	job := taskstate.Job{
		ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: count, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}},
		Restart: taskstate.DefaultRestart(taskstate.ServiceJob), Update: &u,
	}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("batch a 1 s.1.1=running s.2.1=running s.3.1=running s.4.1=running", "advance 2s a")
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	return r
}

func TestAnUpdateThatBearsAFailureGoesOnAndTurnsBackAfterTheNext(t *testing.T) {
	r := updatedService(t, 4, taskstate.Update{MaxFailureRatio: 0.4, OnFailure: taskstate.RollBackUpdate})
	got := r.commands("batch a 2 s.1.1=shutdown/updated", "batch a 3 s.1.2=failed/exit", "advance 1s a")
	if !strings.Contains(got, "renew s[2.1] v2 (updated)") || strings.Contains(got, "rollout") {
		t.Fatalf("it bears one of four, and does not go on:\n%s", got)
	}
	got = r.commands("batch a 4 s.2.1=shutdown/updated", "batch a 5 s.2.2=failed/exit", "advance 1s a")
	if !strings.Contains(got, `rollout s v2 rolling-back "version 2 failed on 2 of 4 slots"`) {
		t.Fatalf("two of four are more than it bears:\n%s", got)
	}
}

func TestAnUpdateIsCompleteThoughASlotOfItGoesOnFailing(t *testing.T) {
	r := updatedService(t, 2, taskstate.Update{MaxFailureRatio: 0.5})
	r.commands("batch a 2 s.1.1=shutdown/updated", "batch a 3 s.1.2=failed/exit", "batch a 4 s.2.1=shutdown/updated", "batch a 5 s.2.2=running", "batch a 6 s.1.3=failed/exit")
	if got := r.commands("advance 2s a"); !strings.Contains(got, `rollout s v2 completed "version 2 has reached all 2 slots and failed on 1"`) {
		t.Fatalf("it has reached both of its slots:\n%s", got)
	}
	if rec, _ := r.state.Job("s"); rec.Slot(1).Final != nil {
		t.Errorf("the slot that failed is not tried again: %+v", rec.Slot(1))
	}
}

func TestATaskThatRanForLongAndEndsDuringAnUpdateHasNotFailedIt(t *testing.T) {
	r := updatedService(t, 2, taskstate.Update{OnFailure: taskstate.PauseUpdate})
	r.commands("batch a 2 s.1.1=shutdown/updated", "batch a 3 s.1.2=running", "advance 500ms a")
	got := r.commands("advance 600ms a")
	r.commands("hold", "batch a 4 s.1.2=failed/exit", "batch a 5 s.2.1=shutdown/updated") // decided later than the step sees its end
	got += r.commands("decide", "advance 10ms a")
	if strings.Contains(got, "paused") {
		t.Errorf("it ran for longer than it is watched:\n%s", got)
	}
}
