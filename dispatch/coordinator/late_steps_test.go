package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// Steps whose decisions come late: what they follow from has changed while they were under way.

// serviceOn submits a service of two tasks that run on a and b, and holds every decision back from
// then on.
func (r *rig) serviceOn(u taskstate.Update) taskstate.Job {
	job := taskstate.Job{
		ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 2, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}},
		Restart: &taskstate.Restart{Condition: taskstate.RestartAny}, Resources: taskstate.Resources{MilliCPU: 1000}, Update: &u,
	}
	r.commands("member a", "hello a cpus=2", "member b", "hello b cpus=2")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	for _, open := range r.core.openTasks() {
		id, rest, _ := strings.Cut(open, " on ")
		r.commands("batch " + rest[:1] + " 1 " + id + "=running")
	}
	r.hold = true
	r.take()
	return job
}

// wanted counts the slots of the service that are wanted, and those that are to end.
func (r *rig) wanted() (slots, leaving int) {
	rec, _ := r.state.Job("s")
	for n := 1; n <= rec.Slots(); n++ {
		if s := rec.Slot(n); !s.Retired {
			slots++
			if s.Leaving != "" {
				leaving++
			}
		}
	}
	return slots, leaving
}

// proposes fails the test unless that, and nothing else, is under way.
func (r *rig) proposes(what string) {
	r.t.Helper()
	if got := r.take(); !strings.Contains(got, "propose "+what) || len(r.pending) != 1 {
		r.t.Fatalf("want %q proposed:\n%s", what, got)
	}
}

// goesOn decides all that is still under way, and lets a second pass: what the core followed must
// be what the ledger holds.
func (r *rig) goesOn() {
	r.t.Helper()
	r.hold = false
	r.step()
	r.commands("advance 1s a b")
	if err := r.check(); err != nil || r.over != "" {
		r.t.Fatalf("%v %s", err, r.over)
	}
	if l := r.core.jobs.of("s").lasting; l.proposed > 0 {
		r.t.Errorf("it still waits for %d decisions", l.proposed)
	}
}

func TestASurgeIsNotAddedOnceAnotherUpdateNeedsNone(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := r.serviceOn(taskstate.Update{Parallelism: 2, Monitor: 1000, Order: taskstate.StartFirst})
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.proposes("grow s by 2")
	job.Count, job.Update = 1, &taskstate.Update{Parallelism: 1, Monitor: 1000, Order: taskstate.StopFirst}
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}}) // it restarts nothing: the version stays
	r.decide()
	if n, _ := r.wanted(); n != 2 {
		t.Errorf("%d slots are wanted, and were 2 when one of them became one too many", n)
	}
	r.goesOn()
	if n, _ := r.wanted(); n != 1 {
		t.Errorf("%d slots are wanted, want 1", n)
	}
}

func TestATaskIsNotReplacedOnceItsUpdateIsPausedOrTurnedBack(t *testing.T) {
	for _, to := range []taskstate.RolloutState{taskstate.RolloutPaused, taskstate.RolloutRollingBack} {
		r := newRig(t, CoreConfig{})
		job := r.serviceOn(taskstate.Update{Parallelism: 1, Monitor: 1000})
		job.Run.Noop = &taskstate.Noop{Duration: 2}
		r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
		r.proposes("renew s[1.")
		r.apply(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: to, Message: "wished"}})
		r.decide()
		if _, leaving := r.wanted(); leaving > 0 {
			t.Errorf("%s: %d tasks are stopped for a version that nobody wants now", to, leaving)
		}
		r.goesOn()
	}
}

func TestATaskIsNotGivenUpOnceItIsWantedAgain(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := r.serviceOn(taskstate.Update{Parallelism: 1})
	job.Count = 1
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.proposes("retire s[2.")
	job.Count = 2
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.decide()
	if n, leaving := r.wanted(); n != 2 || leaving > 0 {
		t.Errorf("%d slots are wanted, and %d tasks of them stopped", n, leaving)
	}
	r.goesOn()
}

func TestAnUpdateIsNotTurnedBackOnceItMayGoOn(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := r.serviceOn(taskstate.Update{Parallelism: 2, Monitor: 5000, OnFailure: taskstate.RollBackUpdate})
	job.Run.Noop, job.Restart = &taskstate.Noop{Duration: 2}, &taskstate.Restart{Condition: taskstate.RestartNone}
	r.hold = false
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.commands("batch a 2 s.1.1=shutdown/updated s.2.1=shutdown/updated", "batch b 2 s.1.1=shutdown/updated s.2.1=shutdown/updated")
	r.hold = true
	for _, open := range r.core.openTasks() {
		if id, rest, _ := strings.Cut(open, " on "); strings.HasPrefix(id, "s.1.") {
			r.commands("batch " + rest[:1] + " 3 " + id + "=failed")
		}
	}
	for len(r.pending) > 0 && r.pending[0][0].Rollout == nil {
		r.decide()
	}
	r.proposes(`rollout s v2 rolling-back`)
	bears := *job.Update
	bears.OnFailure = taskstate.ContinueUpdate
	job.Update = &bears
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.decide()
	if rec, _ := r.state.Job("s"); rec.Rollout().State != taskstate.RolloutUpdating {
		t.Errorf("the update is %s, though its failures do not matter any more", rec.Rollout().State)
	}
	r.goesOn()
}

func TestATaskThatTookThePlaceOfADrainedOneIsLeftAlone(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.serviceOn(taskstate.Update{Parallelism: 1})
	open := r.core.openTasks()[0]
	id, rest, _ := strings.Cut(open, " on ")
	p := rest[:1]
	r.apply(ledger.Command{Avail: &ledger.SetAvailability{Peer: p, Availability: ledger.AvailDrain}})
	r.proposes("renew s[1.")
	late := r.pending[0]
	r.pending = nil
	r.commands("batch " + p + " 2 " + id + "=failed")
	for len(r.pending) > 0 { // its end is decided, and its next attempt given out, before
		r.decide()
	}
	rec, _ := r.state.Job("s")
	if s := rec.Slot(1); s.Attempt != 2 || s.Peer == p {
		t.Fatalf("slot 1 is %+v", s)
	}
	r.apply(late...)
	r.step(ProposalDone{})
	if rec, _ = r.state.Job("s"); rec.Slot(1).Leaving != "" {
		t.Errorf("the task on %s is stopped, and %s is drained", rec.Slot(1).Peer, p)
	}
	r.goesOn()
}

func TestWhatACoordinatorDecidesBesideItsFormerSelfIsDecidedAnew(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := r.serviceOn(taskstate.Update{Parallelism: 1, Monitor: 1000})
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.proposes("renew s[1.")
	late := r.pending[0]
	r.build(CoreConfig{})     // it has lost track, in the same term: what it proposed may still be decided
	at := map[string]string{} // tasks by peer
	for _, open := range r.core.openTasks() {
		id, rest, _ := strings.Cut(open, " on ")
		at[rest[:1]] += " " + id + "=running"
		if strings.HasPrefix(id, "s.2.") { // this time it is the second that seems to be down
			at[rest[:1]] = strings.TrimSuffix(at[rest[:1]], " "+id+"=running")
		}
	}
	r.commands("hello a cpus=2"+at["a"], "hello b cpus=2"+at["b"])
	i := len(r.pending)
	for range 10 {
		if r.commands("advance 1s a b"); len(r.pending) > i {
			break
		}
	}
	r.apply(late...)
	for len(r.pending) > 0 {
		r.decide()
		if _, leaving := r.wanted(); leaving > 1 {
			t.Fatal("both tasks are stopped, and one at a time may be")
		}
	}
	if _, leaving := r.wanted(); leaving != 1 {
		t.Errorf("%d tasks are stopped", leaving)
	}
}

func TestAStepThatTheLedgerRefusesAgainAndAgainRests(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := r.serviceOn(taskstate.Update{Parallelism: 1, Monitor: 1000})
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.hold = false
	r.core.jobs.of("s").lasting.slots[1].attempt = 7 // it is wrong about what there is
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.take()
	before := r.state.Index()
	r.advance(3 * time.Second)
	if n := r.state.Index() - before; n == 0 || n > 5 {
		t.Errorf("%d entries in three seconds", n)
	}
}
