package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// fragile is a batch job with a restart policy.
func fragile(count int, p taskstate.Restart) ledger.Command {
	c := submit("j", count)
	c.Submit.Job.Restart = &p
	return c
}

func TestAFailedTaskIsTriedAgainAfterItsDelayAndNotForEver(t *testing.T) {
	l := newLog(t)
	l.must(fragile(2, taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 2, Delay: 700}))
	l.must(assign("j", "p2", run(1, 2, 1)), settle("p2", ended("j", 2, taskstate.Complete)))
	for attempt, wait := range []int64{700, 1400} {
		l.stamp += 3000
		r := l.one(settle("p2", endedAs("j", 1, attempt+1, taskstate.Failed)))
		want := ledger.Again{Job: "j", Slots: run(1, 1, attempt+2), NotBefore: l.stamp + wait}
		if !slices.Equal(r.Again, []ledger.Again{want}) || l.record("j").NotBefore(1) != want.NotBefore {
			t.Fatalf("after attempt %d: %+v, want %+v", attempt+1, r.Again, want)
		}
		l.must(assign("j", "p2", run(1, 1, attempt+2)))
		if s := l.slot("j", 1); s.NotBefore != 0 {
			t.Errorf("started, it is %+v", s)
		}
	}
	l.must(settle("p2", endedAs("j", 1, 3, taskstate.Failed)))
	j := l.record("j")
	if j.State() != taskstate.Failed || j.Counts() != (ledger.Counts{Complete: 1, Failed: 1}) {
		t.Errorf("it is %v, %+v", j.State(), j.Counts())
	}
	p := j.Past(1)
	if len(p) != 2 || p[0].Reason != taskstate.ReasonRestart || p[0].End == nil || p[0].End.State != taskstate.Failed || p[0].End.Task.Attempt != 1 {
		t.Errorf("past %+v", p)
	}
}

func TestTheHistoryOfRestartsSurvivesASnapshotAndEndsWithANewVersion(t *testing.T) {
	l := newLog(t)
	c := service("j", 1)
	c.Submit.Job.Restart = &taskstate.Restart{Condition: taskstate.RestartAny, Attempts: 2, Window: 50_000}
	l.must(c)
	fail := func(version, attempt int) {
		l.t.Helper()
		l.stamp += 100
		l.must(assignOf(version, "j", "p2", run(1, 1, attempt)), settle("p2", endedAs("j", 1, attempt, taskstate.Failed)))
	}
	fail(1, 1)
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	l.State = back
	fail(1, 2)
	l.must(update(spec(c, 2), 1), renew("j", 2, run(1, 1, 3)))
	fail(2, 3)
	fail(2, 4)
	fail(2, 5)
	if s := l.slot("j", 1); s.Final == nil || s.Attempt != 5 {
		t.Errorf("after two restarts of each version it is %+v", s)
	}
}

func TestANewVersionThatReplacesARunningTaskMayRestartAsOftenAsAnyOther(t *testing.T) {
	l := newLog(t)
	c := service("j", 1)
	c.Submit.Job.Restart = &taskstate.Restart{Condition: taskstate.RestartAny, Attempts: 1}
	l.must(c, assignOf(1, "j", "p2", run(1, 1, 1)), settle("p2", ended("j", 1, taskstate.Failed)), assignOf(1, "j", "p2", run(1, 1, 2)))
	l.must(update(spec(c, 2), 1), renew("j", 2, run(1, 1, 2)), settle("p2", endedAs("j", 1, 2, taskstate.Shutdown)))
	l.must(assignOf(2, "j", "p2", run(1, 1, 3)), settle("p2", endedAs("j", 1, 3, taskstate.Failed)))
	if s := l.slot("j", 1); !s.Pending() || s.Attempt != 4 {
		t.Errorf("after the first failure of the new version it is %+v", s)
	}
}

func TestTooManyFailuresCutTheRestAndARetryGoesOn(t *testing.T) {
	l := newLog(t)
	c := submit("j", 10)
	c.Submit.Job.MaxFails = 2
	after := submit("k", 1)
	after.Submit.Job.After = []taskstate.JobID{"j"}
	l.must(c, after, assign("j", "p2", run(1, 4, 1)))
	l.must(settle("p2", ended("j", 1, taskstate.Failed)))
	r := l.one(settle("p2", ended("j", 2, taskstate.Rejected), ended("j", 3, taskstate.Complete)))
	j := l.record("j")
	if reason, _, ok := j.Cancelled(); !ok || reason != "2 tasks failed (max_fails: 2)" || j.Why() != taskstate.ReasonMaxFails || !slices.Equal(r.Cut, []taskstate.JobID{"j"}) {
		t.Fatalf("cancelled %t: %q, %+v", ok, reason, r)
	}
	if f := l.slot("j", 9).Final; f == nil || f.Reason != taskstate.ReasonMaxFails {
		t.Errorf("one that waited: %+v", f)
	}
	l.refuses(ledger.CodeOver, renew("j", 0, run(1, 1, 1))) // it still stops
	r = l.one(settle("p2", ended("j", 4, taskstate.Shutdown)))
	if st := j.State(); st != taskstate.Failed || !slices.Equal(r.Cut, []taskstate.JobID{"k"}) {
		t.Errorf("it ended as %v, and cut %v", st, r.Cut)
	}
	if reason, _, _ := l.record("k").Cancelled(); reason != "after: job name-j (j) failed" {
		t.Errorf("its successor says %q", reason)
	}

	l.must(renew("j", 0, run(1, 1, 1))) // of two failures, one is tried again
	j = l.record("j")
	if c := j.Counts(); c != (ledger.Counts{Pending: 7, Complete: 1, Rejected: 1, Shutdown: 1}) {
		t.Errorf("going on: %+v", c)
	}
	if s := l.slot("j", 9); !s.Pending() || s.Attempt != 2 {
		t.Errorf("one that was cut off waits as %+v", s)
	}
	l.must(assign("j", "p2", run(1, 1, 2), run(5, 6, 2)), settle("p2", endedAs("j", 1, 2, taskstate.Failed)))
	if _, _, cancelled := l.record("j").Cancelled(); cancelled {
		t.Error("the failure that was left alone counts again")
	}
	l.must(settle("p2", endedAs("j", 5, 2, taskstate.Failed)))
	if _, _, cancelled := l.record("j").Cancelled(); !cancelled {
		t.Error("two more failures do not count")
	}
}

func TestARetryRunsOnlyWhatIsNamed(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 3), assign("j", "p2", run(1, 3, 1)))
	l.must(settle("p2", ended("j", 1, taskstate.Complete), ended("j", 2, taskstate.Failed), ended("j", 3, taskstate.Failed)))
	l.refuses(ledger.CodePartly, renew("j", 0, run(2, 1, 2)))
	l.refuses(ledger.CodePartly, renew("j", 0, run(4, 9, 0)))
	l.refuses(ledger.CodeInvalid, renew("j", 0))
	l.refuses(ledger.CodeInvalid, renew("j", 1, run(2, 1, 1)))
	if _, over := l.record("j").Ended(); !over {
		t.Fatal("a retry that was refused has it going")
	}
	l.must(renew("j", 0, run(2, 2, 1)))
	if c := l.record("j").Counts(); c != (ledger.Counts{Pending: 2, Complete: 1}) || l.Kept() != 0 {
		t.Errorf("counts %+v, finished jobs weigh %d", c, l.Kept())
	}
	l.must(assign("j", "p2", run(2, 2, 2)), settle("p2", endedAs("j", 2, 2, taskstate.Complete), endedAs("j", 3, 2, taskstate.Complete)))
	if st := l.record("j").State(); st != taskstate.Complete || !slices.Contains(l.JustEnded(), "j") {
		t.Errorf("it is %v", st)
	}
	if p := l.record("j").Past(2); len(p) != 1 || p[0].End.State != taskstate.Failed {
		t.Errorf("past %+v", p)
	}
}

func TestATaskOfABatchJobCanBeTakenOut(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 3), assign("j", "p2", run(1, 2, 1)), settle("p2", ended("j", 1, taskstate.Complete)))
	l.refuses(ledger.CodePartly, retire("j", run(1, 1, 0))) // its end stands
	l.must(retire("j", run(2, 2, 1)), settle("p2", ended("j", 2, taskstate.Shutdown)))
	if j := l.record("j"); j.State() != taskstate.Complete || j.Counts() != (ledger.Counts{Complete: 1, Retired: 2}) {
		t.Errorf("it is %v, %+v", j.State(), j.Counts())
	}
}

func TestAJobWaitsForThoseItComesAfter(t *testing.T) {
	l := newLog(t)
	after := func(id taskstate.JobID, ids ...taskstate.JobID) ledger.Command {
		c := submit(id, 1)
		c.Submit.Job.After = ids
		return c
	}
	if r := l.one(after("k", "nobody")); r.Refused != ledger.CodeUnknown || r.Missing != "nobody" {
		t.Errorf("after an unknown job: %+v", r)
	}
	l.must(submit("a", 1), submit("b", 1), after("k", "a", "b", "a"))
	if j := l.record("k"); !slices.Equal(j.Blocked(), []taskstate.JobID{"a", "b"}) || j.State() != taskstate.Pending {
		t.Errorf("blocked by %v", j.Blocked())
	}
	l.refuses(ledger.CodeBlocked, assign("k", "p2", run(1, 1, 1)))
	done := func(id taskstate.JobID, st taskstate.State) ledger.Result {
		l.must(assign(id, "p2", run(1, 1, 1)))
		return l.one(settle("p2", ended(id, 1, st)))
	}
	done("a", taskstate.Complete)
	l.refuses(ledger.CodeBlocked, assign("k", "p2", run(1, 1, 1)))
	if r := done("b", taskstate.Complete); !slices.Equal(r.Released, []taskstate.JobID{"k"}) {
		t.Errorf("released %v", r.Released)
	}
	done("k", taskstate.Failed)
	l.must(after("late", "a", "b"), assign("late", "p2", run(1, 1, 1)))
	if r := l.one(after("later", "a", "k")); r.Refused != "" || !slices.Equal(r.Cut, []taskstate.JobID{"later"}) {
		t.Errorf("after a failed one: %+v", r)
	}
	if j := l.record("later"); j.State() != taskstate.Shutdown || j.Why() != taskstate.ReasonAfter {
		t.Errorf("it is %v, %v", j.State(), j.Why())
	}
	if r := l.one(after("later", "a", "k")); !r.Existed || r.Refused != "" {
		t.Errorf("repeated: %+v", r)
	}
}

// A task that was cancelled by itself leaves what it had written by then, and its job is complete.
func TestAJobThatTakesFilesIsCutIfATaskThatWasToLeaveThemIsNotComplete(t *testing.T) {
	for name, before := range map[string]bool{"submitted before": true, "submitted after": false} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			takes := func(id taskstate.JobID, inputs ...taskstate.Input) ledger.Command {
				c := submit(id, 1)
				c.Submit.Job.After, c.Submit.Job.Inputs = []taskstate.JobID{"parts"}, inputs
				return c
			}
			consumers := []ledger.Command{takes("join", taskstate.Input{Name: "parts", From: "parts"}), takes("each", taskstate.Input{Name: "parts", From: "parts", SameSlot: true}), takes("follows")}
			all := func() []ledger.Result {
				l.must(assign("parts", "p2", run(1, 3, 1)), settle("p2", ended("parts", 1, taskstate.Complete)), settle("p2", ended("parts", 3, taskstate.Complete)), retire("parts", run(2, 1, 1)))
				return []ledger.Result{l.one(settle("p2", ended("parts", 2, taskstate.Shutdown)))}
			}
			for _, p := range members(l.State) {
				l.must(reads(p, 2))
			}
			l.must(submit("parts", 3))
			var got []ledger.Result
			if before {
				l.must(consumers...)
				got = all()
			} else {
				all()
				for _, c := range consumers {
					got = append(got, l.one(c))
				}
			}
			var cut []taskstate.JobID
			for _, r := range got {
				cut = append(cut, r.Cut...)
			}
			if slices.Sort(cut); !slices.Equal(cut, []taskstate.JobID{"each", "join"}) {
				t.Errorf("cut: %v", cut)
			}
			if why, _, _ := l.record("join").Cancelled(); !strings.Contains(why, "task 2 of job") || !strings.Contains(why, "was cancelled") || l.record("join").Why() != taskstate.ReasonAfter {
				t.Errorf("it says %q, %v", why, l.record("join").Why())
			}
			if st := l.record("follows").State(); st != taskstate.Pending || len(l.record("follows").Blocked()) > 0 {
				t.Errorf("one that takes no files is %v", st)
			}
			l.must(renew("parts", 0, run(2, 1, 0)), assign("parts", "p2", run(2, 1, 2)), settle("p2", endedAs("parts", 2, 2, taskstate.Complete)))
			if n := l.record("parts").FirstIncomplete(); n != 0 {
				t.Errorf("task %d is not complete, after it was tried again", n)
			}
		})
	}
}

func TestALongChainOfJobsIsCutInOneStep(t *testing.T) {
	const many = 20_000
	l := newLog(t)
	l.must(submit("j0", 1))
	for i := 1; i <= many; i++ {
		c := submit(taskstate.JobID(fmt.Sprint("j", i)), 1)
		c.Submit.Job.After = []taskstate.JobID{taskstate.JobID(fmt.Sprint("j", i-1))}
		l.must(c)
	}
	l.must(assign("j0", "p2", run(1, 1, 1)))
	if r := l.one(settle("p2", ended("j0", 1, taskstate.Failed))); len(r.Cut) != many {
		t.Errorf("%d were cut", len(r.Cut))
	}
	j := l.record(taskstate.JobID(fmt.Sprint("j", many)))
	if reason, _, _ := j.Cancelled(); !strings.Contains(reason, fmt.Sprint("name-j", many-1)) || !strings.Contains(reason, "was cancelled") {
		t.Errorf("the last one says %q", reason)
	}
}

func TestACancelledJobIsNotWaitingForAnything(t *testing.T) {
	l := newLog(t)
	c := submit("k", 1)
	c.Submit.Job.After = []taskstate.JobID{"a"}
	l.must(submit("a", 1), c, cancel("k"), assign("a", "p2", run(1, 1, 1)))
	if r := l.one(settle("p2", ended("a", 1, taskstate.Failed))); len(r.Cut)+len(r.Released) != 0 {
		t.Errorf("%+v", r)
	}
}

// In the decisions that a recovered ledger lost, a finished job may have been retried.
func TestARetryInARecoveredLedgerUsesNoAttemptOfTheLostPart(t *testing.T) {
	for name, last := range map[string]ledger.Command{
		"over":      settle("p2", ended("j", 2, taskstate.Failed)),
		"cancelled": cancel("j"),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.must(submit("j", 3), assign("j", "p2", run(1, 2, 1)), settle("p2", ended("j", 1, taskstate.Failed)))
			l.must(retire("j", run(3, 1, 1)), last)
			if name == "cancelled" {
				l.must(settle("p2", ended("j", 2, taskstate.Failed)))
			}
			again := ledger.Command{Found: &ledger.Found{Cluster: "c", Generation: 2, Founder: entryFor("p1")}}
			l.must(again, renew("j", 0, run(1, 2, 1)))
			if s := l.slot("j", 1); !s.Pending() || s.Attempt < 1000 {
				t.Errorf("it waits for attempt %d", s.Attempt)
			}
		})
	}
}

func TestATaskWhoseOutputWasLostIsNotRestartedIfItMustNotRunTwice(t *testing.T) {
	for _, once := range []bool{false, true} {
		l := newLog(t)
		c := fragile(1, taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 5})
		c.Submit.Job.Unreachable.Wait = once
		lost := endedAs("j", 1, 1, taskstate.Failed)
		lost.Reason = taskstate.ReasonOutputLost
		l.must(c, assign("j", "p2", run(1, 1, 1)), settle("p2", lost))
		if s := l.slot("j", 1); s.Pending() == once {
			t.Errorf("must not run twice: %v; it is %+v", once, s)
		}
	}
}
