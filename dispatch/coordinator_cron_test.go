package dispatch

import (
	"strings"
	"testing"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// everyMinute submits a schedule that is due with each minute, and lets two of them pass while nothing is decided: what it proposed is
// told.
func everyMinute(t *testing.T, overlap taskstate.Overlap) (r *coordRig, proposed string) {
	r = newCoordRig(t, CoordinatorConfig{})
	job := jobOf("s", argsOf([]string{"count=1"}))
	job.Name, job.Schedule = "s", &taskstate.Schedule{Cron: "* * * * *", Overlap: overlap}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.hold = true
	r.take()
	r.advance(2*time.Minute + time.Second)
	return r, r.take()
}

func TestAScheduleThatSkipsCountsARunThatIsStillBeingDecided(t *testing.T) {
	r, got := everyMinute(t, taskstate.SkipOverlap)
	if n := strings.Count(got, "submit"); n != 1 {
		t.Fatalf("%d runs are proposed, and none may start beside another:\n%s", n, got)
	}
	r.decide()
	r.advance(time.Minute)
	if got := r.take(); strings.Contains(got, "submit") {
		t.Errorf("the run goes on, and another is proposed:\n%s", got)
	}
}

func TestAScheduleThatSkipsGoesOnAfterARunThatWasRefused(t *testing.T) {
	r, _ := everyMinute(t, taskstate.SkipOverlap)
	run := r.pending[0][0]
	r.step(LedgerApplied{
		Entry:   ledger.Entry{Index: r.state.Index() + 1, Epoch: r.epoch, Stamp: r.now.UnixMilli(), Commands: []ledger.Command{run}},
		Results: []ledger.Result{{Refused: ledger.CodeInvalid}},
	}, ProposalDone{})
	r.take()
	r.advance(time.Minute)
	if got := r.take(); strings.Count(got, "submit") != 1 {
		t.Errorf("nothing runs and nothing is being decided, and a minute later:\n%s", got)
	}
}

func TestAScheduleThatAllowsOverlapWaitsForNoDecision(t *testing.T) {
	if _, got := everyMinute(t, taskstate.AllowOverlap); strings.Count(got, "submit") != 2 {
		t.Errorf("want both runs proposed:\n%s", got)
	}
}
