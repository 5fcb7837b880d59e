package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func TestAnUpdateThatChangesWhatRunsRaisesTheVersionAndOthersDoNot(t *testing.T) {
	l := newLog(t)
	c := service("j", 3)
	l.must(c)
	other := service("j", 5)
	other.Submit.Job.Priority = 90
	l.must(update(other, 1))
	if j := l.record("j"); j.Job().Count != 5 || j.Job().Version != 1 || j.Rollout().State != taskstate.RolloutNone || j.Slots() != 3 {
		t.Errorf("in place: version %d, %+v", j.Job().Version, j.Rollout())
	}
	if r := l.one(update(other, 1)); !r.Existed || r.Version != 1 {
		t.Errorf("the same again: %+v", r)
	}
	l.stamp = 5000
	if r := l.one(update(spec(other, 2), 1)); r.Version != 2 || r.Refused != "" {
		t.Errorf("a new version: %+v", r)
	}
	j := l.record("j")
	if r := j.Rollout(); r != (ledger.RolloutRecord{State: taskstate.RolloutUpdating, Since: 5000, Began: 5000, Version: 2, From: 1}) {
		t.Errorf("rollout %+v", r)
	}
	if j.JobOf(1).Run.Noop.Duration != 1 || j.JobOf(2) != j.Job() || j.JobOf(0) != j.Job() || j.JobOf(3) != nil || j.Slot(1).Version != 1 {
		t.Errorf("versions %v", j.Versions())
	}
	l.refuses(ledger.CodeConflict, update(spec(other, 3), 1))
	if r := l.one(c); !r.Existed || r.Refused != "" {
		t.Errorf("the first submission, late: %+v", r)
	}
	if r := l.one(other); r.Refused != ledger.CodeConflict {
		t.Errorf("something else under that id: %+v", r)
	}
}

func TestAnUpdateThatMakesNoSenseIsRefused(t *testing.T) {
	l := newLog(t)
	l.must(service("j", 1), submit("b", 1))
	global, renamed := submit("j", 0), service("j", 1)
	global.Submit.Job.Type, renamed.Submit.Job.Name = taskstate.GlobalJob, "else"
	l.refuses(ledger.CodeInvalid, update(global, 0))
	l.refuses(ledger.CodeInvalid, update(renamed, 0))
	l.refuses(ledger.CodeInvalid, update(submit("b", 2), 0))
	l.refuses(ledger.CodeUnknown, update(service("x", 1), 0))
	l.must(cancel("j"))
	l.refuses(ledger.CodeOver, update(service("j", 2), 0))
	l.refuses(ledger.CodeOver, rollout("j", taskstate.RolloutPaused))
	l.refuses(ledger.CodeInvalid, rollout("b", taskstate.RolloutPaused))
}

func TestARollbackIsANewVersionWithTheOldContents(t *testing.T) {
	l := newLog(t)
	c := service("j", 3)
	l.must(c, assignOf(1, "j", "p2", run(1, 3, 1)), update(spec(c, 2), 1), renew("j", 2, run(1, 1, 1)), settle("p2", ended("j", 1, taskstate.Shutdown)))
	l.refuses(ledger.CodeConflict, ledger.Command{Rollout: &ledger.Rollout{Job: "j", State: taskstate.RolloutCompleted, Version: 1}})
	l.must(rollout("j", taskstate.RolloutRollingBack))
	j := l.record("j")
	if j.Job().Version != 3 || j.Job().Run.Noop.Duration != 1 || j.Rollout().State != taskstate.RolloutRollingBack || j.Rollout().From != 0 {
		t.Errorf("version %d, %+v", j.Job().Version, j.Rollout())
	}
	if a, b := j.Slot(1).Version, j.Slot(2).Version; a != 2 || b != 3 {
		t.Errorf("slots are of versions %d and %d: those that run the old contents need no new attempt", a, b)
	}
	l.must(renew("j", 3, run(1, 1, 2)), rollout("j", taskstate.RolloutPaused))
	if st := l.record("j").Rollout().State; st != taskstate.RolloutRollbackPaused {
		t.Errorf("a rollback that is paused is %q", st)
	}
	l.refuses(ledger.CodeConflict, rollout("j", taskstate.RolloutCompleted))
	l.refuses(ledger.CodeConflict, rollout("j", taskstate.RolloutRolledBack))
	l.must(rollout("j", taskstate.RolloutUpdating), rollout("j", taskstate.RolloutRolledBack)) // somebody says go on, and it succeeds
	l.refuses(ledger.CodeUnknown, rollout("j", taskstate.RolloutRollingBack))
	if v := l.record("j").Versions(); !slices.Equal(v, []int{3}) {
		t.Errorf("versions %v are kept", v)
	}
}

func TestARollbackGoesToTheLastVersionThatWasRolledOut(t *testing.T) {
	l := newLog(t)
	c := service("j", 1)
	l.must(c, update(spec(c, 2), 1), update(spec(c, 3), 2), rollout("j", taskstate.RolloutRollingBack))
	if d := l.record("j").Job().Run.Noop.Duration; d != 1 {
		t.Errorf("after two updates that never got through it went back to contents %d", d)
	}
	l.must(update(spec(c, 4), 0), rollout("j", taskstate.RolloutCompleted), update(spec(c, 5), 0), rollout("j", taskstate.RolloutRollingBack))
	if d := l.record("j").Job().Run.Noop.Duration; d != 4 {
		t.Errorf("it went back to contents %d", d)
	}
}

func TestANameBelongsToOneLastingJobAtATime(t *testing.T) {
	l := newLog(t)
	web := func(id taskstate.JobID) ledger.Command {
		c := service(id, 1)
		c.Submit.Job.Name = "web"
		return c
	}
	l.must(web("a"))
	if r := l.one(web("b")); r.Refused != ledger.CodeConflict || r.Job != "a" || r.Existed {
		t.Errorf("a second one: %+v", r)
	}
	batch := submit("c", 1)
	batch.Submit.Job.Name = "web"
	l.must(batch, assignOf(1, "a", "p2", run(1, 1, 1)), cancel("a"))
	l.must(web("b")) // also while the tasks of the first are being stopped
	l.must(settle("p2", ended("a", 1, taskstate.Shutdown)))
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	l.State = back
	if r := l.one(web("d")); r.Refused != ledger.CodeConflict || r.Job != "b" {
		t.Errorf("a third one: %+v", r)
	}
}

func TestAnEndedServiceIsNotRenewedIntoANameThatAnotherHas(t *testing.T) {
	l := newLog(t)
	once := func(id taskstate.JobID) ledger.Command {
		c := service(id, 1)
		c.Submit.Job.Name, c.Submit.Job.Restart = "web", nil
		return c
	}
	l.must(once("a"), assignOf(1, "a", "p2", run(1, 1, 1)), settle("p2", ended("a", 1, taskstate.Failed)), once("b"))
	if r := l.one(renew("a", 0, run(1, 1, 0))); r.Refused != ledger.CodeConflict || r.Job != "b" {
		t.Errorf("renewed: %+v", r)
	}
	l.must(cancel("b"), renew("a", 0, run(1, 1, 0)))
	if r := l.one(once("c")); r.Refused != ledger.CodeConflict || r.Job != "a" {
		t.Errorf("its name is its own again: %+v", r)
	}
}

func TestAScheduleStartsEachRunOnce(t *testing.T) {
	l := newLog(t)
	parent := submit("p", 1)
	parent.Submit.Job.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
	child := func(id taskstate.JobID, at int64) ledger.Command {
		c := submit(id, 1)
		c.Submit.Job.Origin = &taskstate.Origin{Job: "p", At: at}
		return c
	}
	if r := l.one(child("c1", 60)); r.Refused != ledger.CodeUnknown || r.Missing != "p" {
		t.Errorf("without a parent: %+v", r)
	}
	l.must(parent, child("c1", 60), child("c1", 60))
	l.refuses(ledger.CodeBlocked, assign("p", "p2", run(1, 1, 1)))
	l.refuses(ledger.CodeOver, child("c0", 60)) // that run was
	l.must(assign("c1", "p2", run(1, 1, 1)), settle("p2", ended("c1", 1, taskstate.Complete)))
	l.must(child("c2", 120), assign("c2", "p2", run(1, 1, 1)), settle("p2", ended("c2", 1, taskstate.Failed)))
	if j := l.record("p"); j.State() != taskstate.Pending || j.LastRun() != 120 || j.Slots() != 0 || j.Counts() != (ledger.Counts{}) {
		t.Errorf("the parent is %v, ran last %d, %+v", j.State(), j.LastRun(), j.Counts())
	}
	hourly := submit("p", 1)
	hourly.Submit.Job.Schedule = &taskstate.Schedule{Cron: "0 * * * *"}
	l.must(update(hourly, 0))
	if j := l.record("p"); j.Job().Schedule.Cron != "0 * * * *" || j.Job().Version != 0 {
		t.Errorf("updated: %+v", j.Job())
	}
	l.must(cancel("p"))
	l.refuses(ledger.CodeOver, child("c3", 180))
	if st := l.record("p").State(); st != taskstate.Shutdown {
		t.Errorf("cancelled: %v", st)
	}
	odd := child("odd", 240)
	odd.Submit.Job.Origin.Job = "c1"
	l.refuses(ledger.CodeInvalid, odd)
}

func TestAScheduleRemembersWhatItSkipped(t *testing.T) {
	l := newLog(t)
	parent := submit("p", 1)
	parent.Submit.Job.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
	child := submit("c1", 1)
	child.Submit.Job.Origin = &taskstate.Origin{Job: "p", At: 60}
	skip := func(job taskstate.JobID, at int64) ledger.Command {
		return ledger.Command{Skip: &ledger.Skip{Job: job, At: at, Run: "c1"}}
	}
	l.must(parent, child)
	accepted := l.record("p").StartsFrom()
	l.stamp += 5000
	l.refuses(ledger.CodeUnknown, skip("nosuch", 120))
	l.refuses(ledger.CodeInvalid, skip("c1", 120))
	for _, at := range []int64{60, 59} {
		if r := l.one(skip("p", at)); !r.Existed {
			t.Errorf("%d was decided: %+v", at, r)
		}
	}
	for i := range int64(ledger.KeepSkips + 2) {
		l.must(skip("p", 120+60*i))
	}
	if r := l.one(skip("p", 120)); !r.Existed {
		t.Errorf("said twice: %+v", r)
	}
	skips, n := l.record("p").Skips()
	if n != ledger.KeepSkips+2 || len(skips) != ledger.KeepSkips || skips[0].At != 240 || skips[len(skips)-1].At != 780 || skips[0].Run != "c1" || skips[0].Stamp == 0 {
		t.Errorf("%d were skipped: %+v", n, skips)
	}
	late := submit("late", 1)
	late.Submit.Job.Origin = &taskstate.Origin{Job: "p", At: 780}
	l.refuses(ledger.CodeOver, late) // that was skipped
	if l.record("p").LastRun() != 60 {
		t.Error("what was skipped is no run")
	}
	hourly := submit("p", 1)
	hourly.Submit.Job.Schedule = &taskstate.Schedule{Cron: "0 * * * *"}
	l.must(update(hourly, 0))
	if from := l.record("p").StartsFrom(); from != accepted+5000 {
		t.Errorf("starts are made up for from %d on, when the schedule was another", from)
	}
	l.must(cancel("p"))
	l.refuses(ledger.CodeOver, skip("p", 900))
}

// What a job weighs decides when it is forgotten: a peer that restored it from a snapshot must not
// think it heavier.
func TestAJobWeighsTheSameAfterASnapshotHoweverItGrew(t *testing.T) {
	l := newLog(t)
	l.must(service("j", 2), assignOf(1, "j", "p2", run(1, 1, 1)), ledger.Command{Grow: &ledger.Grow{Job: "j", N: 1}})
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	other := &log{State: back, t: t, epoch: l.epoch, stamp: l.stamp}
	for _, x := range []*log{l, other} {
		x.must(settle("p2", ended("j", 1, taskstate.Failed)), cancel("j"))
	}
	if l.Kept() != other.Kept() || l.Kept() == 0 {
		t.Errorf("it weighs %d, and %d after a snapshot", l.Kept(), other.Kept())
	}
}

func TestEndsOfSlotsLongRenewedAreNotKept(t *testing.T) {
	l := newLog(t)
	c := service("j", 1)
	c.Submit.Job.Count, c.Submit.Job.Restart = 2, nil
	l.must(c)
	for i := 1; i <= 3000; i++ {
		st := endedAs("j", 1, i, taskstate.Failed)
		st.Message = fmt.Sprint("it took ", i)
		l.must(assignOf(1, "j", "p2", run(1, 1, i)), settle("p2", st), renew("j", 0, run(1, 1, i)))
	}
	if n := l.record("j").EndKinds(); n > 1100 {
		t.Errorf("%d different ends are kept of a service with two slots", n)
	}
	if p := l.record("j").Past(1); len(p) != ledger.KeepPast || p[4].End.Message != "it took 3000" {
		t.Errorf("past %+v", p)
	}
}

// runOf is a run of the schedule p for a moment.
func runOf(id taskstate.JobID, at int64) ledger.Command {
	c := submit(id, 1)
	c.Submit.Job.Origin = &taskstate.Origin{Job: "p", At: at}
	return c
}

func TestARunIsSkippedIfOneThatSomebodyTriesAgainGoesOnWhenItIsDecided(t *testing.T) {
	l := newLog(t)
	parent := submit("p", 1)
	parent.Submit.Job.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
	other := submit("q", 1) // goes on all the time, and is another's
	other.Submit.Job.Schedule = parent.Submit.Job.Schedule
	beside := runOf("o1", 60)
	beside.Submit.Job.Origin.Job = "q"
	l.must(parent, other, beside, runOf("c1", 60), assign("c1", "p2", run(1, 1, 1)), settle("p2", ended("c1", 1, taskstate.Failed)))
	l.must(renew("c1", 0, run(1, 1, 1)))
	l.stamp = 7000
	if r := l.one(runOf("c2", 120)); r.Refused != ledger.CodeNone || r.Existed || !r.Skipped || r.Job != "c1" {
		t.Errorf("answered %+v", r)
	}
	if _, ok := l.Job("c2"); ok {
		t.Error("two runs go on")
	}
	j := l.record("p")
	if skips, n := j.Skips(); n != 1 || skips[0] != (ledger.Skipped{At: 120, Run: "c1", Stamp: 7000}) || j.LastRun() != 60 || j.StartsFrom() < 120 {
		t.Errorf("%d skipped: %+v, ran last %d", n, skips, j.LastRun())
	}
	if r := l.one(runOf("c2", 120)); r.Refused != ledger.CodeOver || !r.Existed || r.Skipped {
		t.Errorf("said twice: %+v", r)
	}
	l.must(assign("c1", "p2", run(1, 1, 2)), settle("p2", endedAs("c1", 1, 2, taskstate.Complete)), runOf("c3", 180))
	allowed := submit("p", 1)
	allowed.Submit.Job.Schedule = &taskstate.Schedule{Cron: "* * * * *", Overlap: taskstate.AllowOverlap}
	l.must(update(allowed, 0), runOf("c4", 8000))
	l.must(cancel("c3"), cancel("c4"), assign("o1", "p2", run(1, 1, 1)), update(parent, 0), runOf("c5", 9000))
	if r := l.one(runOf("c6", 10_000)); r.Job != "c5" || !r.Skipped {
		t.Errorf("beside the newest: %+v", r)
	}
}

func TestWhatAScheduleWasToDoBeforeItWasChangedIsDroppedIfItIsDecidedAfterThat(t *testing.T) {
	l := newLog(t)
	parent := submit("p", 1)
	parent.Submit.Job.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
	changed := submit("p", 1)
	changed.Submit.Job.Schedule, changed.Submit.Job.Priority = parent.Submit.Job.Schedule, 9
	l.must(parent)
	l.stamp = 61_000
	l.must(update(changed, 0))
	l.refuses(ledger.CodeOver, runOf("c1", 60_000)) // it would be what nobody wants any more
	if r := l.one(ledger.Command{Skip: &ledger.Skip{Job: "p", At: 60_000, Run: "c0"}}); !r.Existed {
		t.Errorf("answered %+v", r)
	}
	if _, n := l.record("p").Skips(); n != 0 || l.record("p").LastRun() != 0 {
		t.Errorf("%d were skipped", n)
	}
	l.must(runOf("c2", 120_000))
}
