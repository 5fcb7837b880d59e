package coordinator

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/rollout"
	"github.com/coveyproject/covey/taskstate"
)

// A new coordinator has heard of nobody: what it took for down it took down, beside what really
// was.
func TestAfterAnElectionTasksThatMayRunAreNotTakenForDown(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a", "member b", "hello b")
	job := taskstate.Job{ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 3, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}}, Restart: taskstate.DefaultRestart(taskstate.ServiceJob)}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.command([]string{"elect"})
	in := r.core.upkeep.rolloutOf(r.core.jobs.of("s"))
	if len(in.Slots) != 3 {
		t.Fatalf("%+v", in.Slots)
	}
	for _, s := range in.Slots {
		if !s.Running {
			t.Errorf("slot %d, which may run on a peer that is not back yet, counts as down", s.N)
		}
	}
	in.Phase, in.Target, in.Update = taskstate.RolloutUpdating, 2, taskstate.DefaultUpdate()
	in.Slots[2].Running = false
	if out := rollout.Step(in); len(out.Renew) != 1 || out.Renew[0] != 3 {
		t.Errorf("%v are renewed, want slot 3, which is down", out.Renew)
	}
}
