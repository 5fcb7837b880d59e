package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// everyMinute submits a schedule that is due with each minute, and lets two of them pass while
// nothing is decided: what it proposed is told.
func everyMinute(t *testing.T, overlap taskstate.Overlap) (r *rig, proposed string) {
	r = newRig(t, CoreConfig{})
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

// running submits a schedule, and has its first run begin on a.
func running(r *rig, overlap taskstate.Overlap) {
	job := jobOf("s", nil)
	job.Schedule = &taskstate.Schedule{Cron: "* * * * *", Overlap: overlap}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.take()
	r.commands("advance 60s a")
}

func TestAStartThatIsSkippedIsADecisionThatTheNextCoordinatorKeepsTo(t *testing.T) {
	r := newRig(t, CoreConfig{})
	running(r, "")
	s, _ := r.state.Job("s")
	first := s.LastRun()
	if got := r.commands("advance 61s a"); first == 0 || strings.Count(got, "propose skip") != 1 {
		t.Fatalf("its run goes on, and the next one is not skipped:\n%s", got)
	}
	s, _ = r.state.Job("s")
	skips, n := s.Skips()
	if n != 1 || skips[0].At != first+60_000 || s.LastRun() != first {
		t.Errorf("skipped %+v, ran %d", skips, s.LastRun())
	}
	run := strings.TrimSuffix(r.openOf(string(skips[0].Run)), ".1.1")
	if run != string(skips[0].Run) {
		t.Errorf("%q is not the run that goes on, %q", skips[0].Run, run)
	}
	r.commands("batch a 1 " + run + ".1.1=complete")
	if got := r.commands("elect", "hello a", "advance 1s a"); strings.Contains(got, "propose submit") {
		t.Errorf("what was skipped is made up for:\n%s", got)
	}
	if got := r.commands("advance 60s a"); strings.Count(got, "propose submit") != 1 {
		t.Errorf("the next one does not start:\n%s", got)
	}
}

func TestWithOverlapAllowedNothingIsSkipped(t *testing.T) {
	r := newRig(t, CoreConfig{})
	running(r, taskstate.AllowOverlap)
	if got := r.commands("advance 121s a"); strings.Count(got, "propose submit") != 2 || strings.Contains(got, "propose skip") {
		t.Errorf("want two more runs:\n%s", got)
	}
}

func TestTheNextCoordinatorMakesUpForNothingBeforeAScheduleWasChanged(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := jobOf("s", nil)
	job.Schedule = &taskstate.Schedule{Cron: "0 0 1 1 *"}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("advance 5m a")
	job.Schedule = &taskstate.Schedule{Cron: "*/2 * * * *"} // would have started twice since it was accepted
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	if got := r.commands("elect", "hello a", "advance 1s a"); strings.Contains(got, "propose submit") {
		t.Errorf("it starts for a time when nobody wanted it:\n%s", got)
	}
}

func TestARunThatIsTriedAgainWhileTheNextIsBeingDecidedHasItSkipped(t *testing.T) {
	r := newRig(t, CoreConfig{})
	running(r, taskstate.SkipOverlap)
	run, _, _ := strings.Cut(r.core.openTasks()[0], ".")
	r.commands("batch a 1 " + run + ".1.1=failed")
	r.hold = true
	if got := r.commands("advance 59s a"); strings.Count(got, "propose submit") != 1 {
		t.Fatalf("the next run is not started:\n%s", got)
	}
	r.apply(ledger.Command{Renew: &ledger.Renew{Job: taskstate.JobID(run), Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}, Reason: taskstate.ReasonRetried}})
	r.commands("decide")
	s, _ := r.state.Job("s")
	if skips, n := s.Skips(); n != 1 || string(skips[0].Run) != run || skips[0].At <= s.LastRun() {
		t.Errorf("%d starts are skipped: %+v", n, skips)
	}
	if open := r.core.openTasks(); len(open) != 1 || !strings.HasPrefix(open[0], run+".1.2 ") {
		t.Errorf("%q run, want the run that is tried again", open)
	}
	if err := r.check(); err != nil || r.over != "" {
		t.Fatalf("%v %s", err, r.over)
	}
	if got := r.commands("batch a 2 "+run+".1.2=complete", "advance 61s a"); strings.Count(got, "propose submit") != 1 {
		t.Errorf("the schedule does not go on:\n%s", got)
	}
}

func TestSchedulesWaitWhileTheLedgersTimeIsLessThanAnHourAheadOfTheClocks(t *testing.T) {
	for behind, want := range map[time.Duration]int{0: 2, 90 * time.Second: 1, 58 * time.Minute: 0, 2 * time.Hour: 2, -time.Hour: 2} {
		r := newRig(t, CoreConfig{})
		r.core.jobs.schedules.clocks = func() int64 { return r.now.Add(-behind).UnixMilli() }
		job := jobOf("s", argsOf([]string{"count=1"}))
		job.Name, job.Schedule = "s", &taskstate.Schedule{Cron: "* * * * *", Overlap: taskstate.AllowOverlap}
		r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
		r.take()
		r.advance(2*time.Minute + time.Second)
		if got := r.take(); strings.Count(got, "submit") != want {
			t.Errorf("clocks are %v behind: want %d runs\n%s", behind, want, got)
		}
		r.advance(behind.Abs() % (59 * time.Minute))
		if got := r.take(); behind == 58*time.Minute && strings.Count(got, "submit") == 0 {
			t.Error("the clocks have come so far, and nothing runs")
		}
	}
}
