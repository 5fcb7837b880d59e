package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// What the simulation found, each brought down to a few steps.

func (r *rig) commands(lines ...string) string {
	for _, line := range lines {
		r.command(strings.Fields(line))
	}
	return r.take()
}

// globalOn submits a global job, has it run on peers a, b, c …, and updates it, one at a time.
func (r *rig) globalOn(n int) taskstate.Job {
	job := taskstate.Job{ID: "g", Name: "g", Type: taskstate.GlobalJob, Update: &taskstate.Update{Parallelism: 1, Monitor: 1000}, Restart: taskstate.DefaultRestart(taskstate.GlobalJob)}
	job.Run.Noop = &taskstate.Noop{Duration: 1}
	for i := range n {
		p := string(rune('a' + i))
		r.commands("member "+p, "hello "+p)
	}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	for i := range n {
		r.commands(fmt.Sprintf("batch %c 1 g.%d.1=running", 'a'+i, i+1))
	}
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	return job
}

func TestAfterAnElectionAnUpdateCountsTheTasksOfPeersThatAreNotBackYet(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := r.globalOn(3)
	r.take()
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	if got := r.take(); !strings.Contains(got, "renew g[1.1] v2") {
		t.Fatalf("the update does not begin:\n%s", got)
	}
	if got := r.commands("elect", "hello b g.2.1=running", "hello c g.3.1=running", "advance 1s b c"); strings.Contains(got, "renew") {
		t.Errorf("a's task is down, one at a time is allowed, and:\n%s", got)
	}
}

func TestPeersThatWereAwayCatchUpWithAnUpdateNoFasterThanItGoes(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := r.globalOn(3)
	r.commands("close b", "close c", "verdict b dead", "verdict c dead")
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	got := r.commands("batch a 2 g.1.1=shutdown/updated", "batch a 3 g.1.2=running", "advance 2s a")
	if !strings.Contains(got, "rollout g v2 completed") {
		t.Fatalf("the update waits for who is away:\n%s", got)
	}
	got = r.commands("verdict b alive", "verdict c alive", "hello b g.2.1=running", "hello c g.3.1=running")
	if n := strings.Count(got, "renew g"); n != 1 || strings.Contains(got, "renew g[2-3") {
		t.Errorf("want one of the two to follow first:\n%s", got)
	}
}

func TestAnUpdateDoesNotWaitForAPeerThatIsPaused(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := r.globalOn(2)
	r.apply(ledger.Command{Avail: &ledger.SetAvailability{Peer: "b", Availability: ledger.AvailPause}})
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	got := r.commands("batch a 2 g.1.1=shutdown/updated", "batch a 3 g.1.2=running", "advance 2s a b")
	if !strings.Contains(got, "rollout g v2 completed") || strings.Contains(got, "stop g.2.1") {
		t.Errorf("want it completed without b's task, which could not start anew:\n%s", got)
	}
	r.apply(ledger.Command{Avail: &ledger.SetAvailability{Peer: "b", Availability: ledger.AvailActive}})
	if got := r.take(); !strings.Contains(got, "renew g[2.1] v2") {
		t.Errorf("b does not catch up once it takes tasks again:\n%s", got)
	}
}

func TestWhatWaitsForOnePeerKeepsNothingElseFromBeingEvenedOut(t *testing.T) {
	r := newRig(t, CoreConfig{})
	global := taskstate.Job{ID: "g", Name: "g", Type: taskstate.GlobalJob, Resources: taskstate.Resources{MilliCPU: 1000}, Constraints: []string{"peer.id == a"}}
	global.Run.Noop = &taskstate.Noop{}
	r.commands("member a", "hello a cpus=1", "submit j count=2 cpus=1")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: global}})
	if got := r.commands("member b", "hello b cpus=1", "advance 1s a b"); !strings.Contains(got, "recall j.") {
		t.Errorf("nothing is taken back from a, though b has room and g waits for a alone:\n%s", got)
	}
}

func TestARestartWaitsItsDelayAlthoughTheCoordinatorBeforeHadAnotherClock(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := jobOf("j", nil)
	job.Restart = &taskstate.Restart{Condition: taskstate.RestartOnFailure, Delay: 5000}
	r.commands("member a", "hello a cpus=1")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.now = r.now.Add(time.Hour)
	r.commands("batch a 1 j.1.1=failed")
	r.now = r.now.Add(-time.Hour) // the next one's clock is right
	if got := r.commands("elect", "hello a cpus=1", "advance 4s a"); strings.Contains(got, "assign j") {
		t.Errorf("it starts early:\n%s", got)
	}
	if got := r.commands("advance 2s a"); !strings.Contains(got, "assign j[1.2] to a") {
		t.Errorf("it does not start after its delay:\n%s", got)
	}
}

func TestAStartThatNobodyCoordinatedIsMadeUpForOnce(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := jobOf("s", nil)
	job.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.now = r.now.Add(3 * time.Minute)
	r.epoch.Term++
	r.state.Apply(ledger.Entry{Index: r.state.Index() + 1, Epoch: r.epoch, Stamp: r.now.UnixMilli(), By: "founder", Commands: []ledger.Command{{Lead: &ledger.Lead{}}}})
	if n := strings.Count(r.commands("elect", "hello a", "advance 1s a"), "propose submit"); n != 1 {
		t.Errorf("%d runs are started after three minutes without a coordinator, want one", n)
	}
}

func TestWhatAPersonDecidesIsNotTakenForTheDecisionThatIsWaitedFor(t *testing.T) {
	r, job := growing(t)
	if got := r.take(); strings.Count(got, "grow") != 1 {
		t.Fatalf("want to be asked for slots once:\n%s", got)
	}
	job.Priority++
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	if got := r.take(); strings.Contains(got, "grow") {
		t.Errorf("slots are asked for again beside those that are being decided:\n%s", got)
	}
	r.hold = false
	r.step()
	if rec, _ := r.state.Job("s"); rec.Slots() != 4 {
		t.Errorf("%d slots, want 4:\n%s", rec.Slots(), r.take())
	}
}

// failing submits a job whose tasks fail on peer a until a is passed over. others join before the
// last of them fails.
func failing(r *rig, others ...string) {
	job := jobOf("j", argsOf([]string{"count=20", "cpus=1", "parallel=1"}))
	job.Restart = &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 1}
	r.commands("member a", "hello a cpus=1")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	for i := 1; i <= faultCount; i++ {
		r.failOn("a", i)
	}
	r.commands(others...)
	r.failOn("a", faultCount+1) // was on its way when the one before was heard of
}

// passedOver is a job that waits: it failed too often on a, and b has no room.
func passedOver(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, CoreConfig{})
	busy := jobOf("busy", argsOf([]string{"count=9", "cpus=1"}))
	busy.Constraints = []string{"peer.id == b"}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: busy}})
	failing(r, "member b", "hello b cpus=1")
	if id := r.openOf("j"); id != "" {
		t.Fatalf("%s runs, though a is to be passed over and b has no room", id)
	}
	return r
}

// failOn has the only open task of job j fail.
func (r *rig) failOn(peer string, batch int) {
	r.commands(fmt.Sprintf("batch %s %d %s=failed", peer, batch, r.openOf("j")))
}

// openOf is the open task of a job; "" if it has none.
func (r *rig) openOf(job string) string {
	for _, line := range r.core.openTasks() {
		if id, _, _ := strings.Cut(line, " "); strings.HasPrefix(id, job+".") {
			return id
		}
	}
	return ""
}

func TestAJobThatFailedTooOftenEverywhereGoesOn(t *testing.T) {
	r := newRig(t, CoreConfig{})
	failing(r)
	if r.openOf("j") == "" {
		t.Error("nothing runs, though there is no better peer")
	}
}

func TestAPeerThatWasPassedOverIsRememberedWhenItMayHaveTasksAgain(t *testing.T) {
	r := passedOver(t)
	beats := "advance 301s a b"
	if got := r.commands(beats); r.openOf("j") == "" {
		t.Errorf("nothing runs five minutes later:\n%s", got)
	}
}

// spent has both tasks of an update fail for good, and the update pause because of it.
func spent(r *rig) taskstate.Job {
	job := taskstate.Job{
		ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 2, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}},
		Update:  &taskstate.Update{Monitor: 1000, OnFailure: taskstate.PauseUpdate},
		Restart: &taskstate.Restart{Condition: taskstate.RestartNone},
	}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("batch a 1 s.1.1=running s.2.1=running")
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.commands("batch a 2 s.1.1=shutdown/updated s.2.1=shutdown/updated")
	return job
}

func TestAnUpdateOfWhichTasksFailedForGoodIsPausedByTheNextCoordinatorToo(t *testing.T) {
	r := newRig(t, CoreConfig{})
	spent(r)
	r.hold = true // the coordinator goes before it has said that the update is to pause
	r.commands("batch a 3 s.1.2=failed")
	r.apply(r.pending[0]...)
	r.take()
	if got := r.commands("elect", "decide", "hello a s.2.2=running"); !strings.Contains(got, "rollout s v2 paused") {
		t.Errorf("the failure is forgotten:\n%s", got)
	}
}

func TestAnUpdateThatIsToGoOnEndsAlthoughTasksFailedForGood(t *testing.T) {
	r := newRig(t, CoreConfig{})
	spent(r)
	if got := r.commands("batch a 3 s.1.2=failed s.2.2=running"); !strings.Contains(got, "rollout s v2 paused") {
		t.Fatalf("the update is not paused:\n%s", got)
	}
	r.apply(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutUpdating}})
	if got := r.commands("advance 3s a"); !strings.Contains(got, "rollout s v2 completed") {
		t.Errorf("it waits for ever for a task that will not come:\n%s", got)
	}
}

func TestAGlobalJobThatHasEndedIsNotAskedForOnAPeerThatComesLater(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := taskstate.Job{ID: "g", Name: "g", Type: taskstate.GlobalJob, Restart: &taskstate.Restart{Condition: taskstate.RestartNone}}
	job.Run.Noop = &taskstate.Noop{Duration: 1}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("batch a 1 g.1.1=failed")
	if rec, _ := r.state.Job("g"); !rec.State().Final() {
		t.Fatalf("it is %v, and its only task has failed for good", rec.State())
	}
	r.commands("member b")
	r.hold = true // else what is refused and asked for again would go round for ever
	if got := r.commands("hello b"); strings.Contains(got, "grow") {
		t.Errorf("the job is over, and:\n%s", got)
	}
	if r.core.jobs.of("g") != nil {
		t.Error("the job is over, and still driven")
	}
}

func TestASurgeThatIsOverIsNotWantedBackForWhatWasGivenUpWithIt(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := taskstate.Job{
		ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}},
		Update:  &taskstate.Update{Parallelism: 1, Monitor: 5000, OnFailure: taskstate.ContinueUpdate, Order: taskstate.StartFirst},
		Restart: &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 1},
	}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("batch a 1 s.1.1=running", "advance 6s a")
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.commands("batch a 2 s.2.1=running", "advance 6s a", "batch a 3 s.1.1=shutdown/updated")
	// The second of the two new ones fails for good while the first has just been restarted.
	got := r.commands("batch a 4 s.1.2=failed s.2.1=failed", "batch a 5 s.2.2=running s.1.3=failed", "advance 6s a")
	rec, _ := r.state.Job("s")
	if strings.Contains(got, "renew") || rec.Rollout().State != taskstate.RolloutCompleted || !rec.Slot(1).Retired || !rec.Slot(2).Open {
		t.Errorf("want the update ended and the slot that runs kept, it is %s:\n%s", rec.Rollout().State, got)
	}
}
