package coordinator

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// A person's decision was taken for one of the job's own step, which then came to the same again
// and took down more than allowed.
func TestADecisionOfSomebodyElseDoesNotCountAsTheStepsOwn(t *testing.T) {
	r := previewRig(t)
	r.hold = true
	job := serviceOf("s", 3)
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	for len(r.pending) > 0 {
		r.decide()
	}
	renewed := func() (n int) {
		for _, cmds := range r.pending {
			for _, c := range cmds {
				if c.Renew != nil {
					for _, run := range c.Renew.Slots {
						n += run.N
					}
				}
			}
		}
		return n
	}
	job.Timeout = 1000
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	if n := renewed(); n != 1 {
		t.Fatalf("%d slots are renewed, want one at a time", n)
	}
	r.apply(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutUpdating, Message: "somebody says go on"}})
	if n := renewed(); n != 1 {
		t.Errorf("%d slots are renewed after a word of somebody else, want one at a time", n)
	}
}

// The ledger hands back what it decoded: that must be found among what was proposed.
func TestADecisionIsRecognisedWhenItComesBackFromTheLedger(t *testing.T) {
	runs := []ledger.Slots{{First: 2, N: 3}}
	own := []ledger.Command{
		{Renew: &ledger.Renew{Job: "s", Slots: runs, Version: 2, Reason: taskstate.ReasonUpdated}},
		{Retire: &ledger.Retire{Job: "s", Slots: runs, Reason: taskstate.ReasonScaled}},
		{Grow: &ledger.Grow{Job: "s", N: 2, Version: 1}},
		{Grow: &ledger.Grow{Job: "s", Peers: []taskstate.PeerID{"a", "b"}, Version: 1}},
		{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutPaused, Message: "why", Version: 3}},
	}
	r := previewRig(t)
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: serviceOf("s", 3)}})
	u, j := r.core.upkeep, r.core.jobs.of("s")
	j.lasting.proposed = 0
	for i := range own {
		u.decideFor(j, own[i])
	}
	somebodys := ledger.Command{Renew: &ledger.Renew{Job: "s", Slots: runs}}
	if u.applied(&somebodys, &ledger.Result{Refused: ledger.CodeOver}); j.lasting.proposed != len(own) {
		t.Error("somebody else's is taken for one of the step's")
	}
	for i := range own {
		b, err := wire.Marshal(own[i])
		if err != nil {
			t.Fatal(err)
		}
		var back ledger.Command
		if err := wire.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if u.applied(&back, &ledger.Result{Refused: ledger.CodeConflict}); j.lasting.proposed != len(own)-i-1 {
			t.Errorf("%s is not recognised", commandString(own[i]))
		}
	}
}
