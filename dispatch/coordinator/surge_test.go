package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/rollout"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// serving is a service in the hands of persons who cannot make up their minds, on workers that are
// slow and never fail.
type serving struct {
	*model
	rt  *rapid.T
	job taskstate.Job
}

// rec is the service in the ledger.
func (s *serving) rec() *ledger.JobRecord {
	rec, _ := s.state.Job(s.job.ID)
	return rec
}

// runs counts the tasks of the service that run and may go on, and the slots that are wanted.
func (s *serving) runs() (running, slots int) {
	rec := s.rec()
	for n := 1; n <= rec.Slots(); n++ {
		x := rec.Slot(n)
		if x.Retired {
			continue
		}
		slots++
		for _, w := range s.workers {
			if t := w.tasks[taskstate.Task(s.job.ID, n, x.Attempt)]; t != nil && x.Open && x.Leaving == "" && t.state == taskstate.Running {
				running++
			}
		}
	}
	return running, slots
}

// watched does something, and holds what became of the service against what an update allows.
func (s *serving) watched(f func()) {
	ran, had := s.runs()
	f()
	run, have := s.runs()
	spec := s.rec().Job()
	u := spec.Updating()
	most := u.Parallelism
	if most == 0 {
		most = spec.Count
	}
	low, high := spec.Count-most, spec.Count
	if u.Order == taskstate.StartFirst {
		low, high = spec.Count, spec.Count+min(most, spec.Count)
	}
	switch {
	case run < ran && run < low:
		s.rt.Fatalf("%d tasks ran and %d do, %d at least are to (%+v)\n%s", ran, run, low, u, tail(s.out.String()))
	case have > had && have > high:
		s.rt.Fatalf("there are %d slots, before %d, and may be %d (%+v)\n%s", have, had, high, u, tail(s.out.String()))
	}
}

func (s *serving) decideAll() {
	for len(s.pending) > 0 {
		s.watched(s.decide)
	}
}

// revise is what a person wants otherwise.
func (s *serving) revise() {
	s.job = *s.rec().Job()
	u := *s.job.Update
	u.Parallelism = rapid.IntRange(0, 3).Draw(s.rt, "parallelism")
	s.job.Update = &u
	if rapid.IntRange(0, 2).Draw(s.rt, "scale") == 0 {
		s.job.Count = rapid.IntRange(0, 5).Draw(s.rt, "count")
	}
	if rapid.IntRange(0, 3).Draw(s.rt, "renew") > 0 {
		s.job.Run.Noop = &taskstate.Noop{Duration: s.job.Run.Noop.Duration + 1}
	}
	s.wish(ledger.Command{Update: &ledger.Update{Job: s.job}})
}

func (s *serving) something(cfg CoreConfig) {
	w := s.workers[rapid.IntRange(0, len(s.workers)-1).Draw(s.rt, "worker")]
	what := rapid.IntRange(0, 19).Draw(s.rt, "what")
	fmt.Fprintf(&s.out, "-- %s %d at %v\n", w.id, what, s.now.UnixMilli())
	switch {
	case what < 3:
		s.revise()
	case what < 5:
		to := rapid.SampledFrom([]taskstate.RolloutState{taskstate.RolloutPaused, taskstate.RolloutUpdating, taskstate.RolloutRollingBack, taskstate.RolloutRollingBack}).Draw(s.rt, "to")
		s.wish(ledger.Command{Rollout: &ledger.Rollout{Job: s.job.ID, State: to, Message: "wished"}})
	case what < 12:
		w.connect()
		for s.decideAll(); len(w.down) > 0; s.decideAll() {
			w.receive()
		}
		if what >= 8 {
			w.work(0)
		}
		w.cut() // what runs is known to run
	case what < 13:
		s.watched(func() { s.elect(cfg) })
	case what < 14:
		w.cutOff(true)
		w.connect() // at once: who is away, and alive, may be counted wrong
	default:
		for _, w := range s.workers {
			w.connect()
		}
		s.beat()
		s.advance(time.Duration(rapid.IntRange(1, 1500).Draw(s.rt, "ms")) * time.Millisecond)
	}
	s.decideAll()
}

func TestHoweverAnUpdateIsChangedOrTurnedBackItNeverHasMoreDownThanAllowed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := CoreConfig{MaxAhead: 3}
		r := newRig(t, cfg)
		s := &serving{model: newModel(r, func(f string, args ...any) { rt.Fatalf(f, args...) }), rt: rt}
		s.job = taskstate.Job{
			ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: rapid.IntRange(1, 5).Draw(rt, "count"), Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}},
			Restart: taskstate.DefaultRestart(taskstate.ServiceJob),
			Update: &taskstate.Update{
				Parallelism: rapid.IntRange(0, 3).Draw(rt, "parallelism"), Monitor: 500, OnFailure: taskstate.PauseUpdate, Delay: rapid.SampledFrom([]int64{0, 700}).Draw(rt, "delay"),
				Order: rapid.SampledFrom([]taskstate.UpdateOrder{taskstate.StopFirst, taskstate.StartFirst}).Draw(rt, "order"),
			},
		}
		s.jobs = append(s.jobs, s.job)
		s.wish(ledger.Command{Submit: &ledger.Submit{Job: s.job}})
		s.settleDown()
		s.hold = true
		for range rapid.IntRange(5, 80).Draw(rt, "steps") {
			s.something(cfg)
			if r.over != "" {
				rt.Fatalf("started over: %s\n%s", r.over, tail(r.out.String()))
			}
		}
		s.hold = false
		s.wish(ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutUpdating}})
		s.settleDown()
		if err := s.asWanted("s"); err != nil {
			rt.Fatalf("%v\n%s\n%s", err, strings.Join(s.core.lastingJobs(), "\n"), tail(r.out.String()))
		}
	})
}

func TestTheSurgeOfAnUpdateIsNotGivenUpForWhatHasYetToStart(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := taskstate.Job{
		ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}},
		Restart: &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 1},
		Update:  &taskstate.Update{Parallelism: 1, Monitor: 1000, OnFailure: taskstate.ContinueUpdate, Order: taskstate.StartFirst},
	}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("batch a 1 s.1.1=running")
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	got := r.commands("batch a 2 s.2.1=running", "advance 1s a")
	if !strings.Contains(got, "renew s[1.1] v2 (updated)") {
		t.Fatalf("the update does not go on:\n%s", got)
	}
	// Slot 1 fails, which this update bears: it has reached all there are, and of the two slots the
	// one that failed is too many.
	got = r.commands("batch a 3 s.1.1=shutdown/updated", "batch a 4 s.1.2=failed", "hold", "batch a 5 s.1.3=failed s.2.1=failed")
	if !strings.Contains(got, "rollout s v2 completed") || !strings.Contains(got, "retire s[1.3]") {
		t.Fatalf("the update does not end:\n%s", got)
	}
	// Slot 1 has ended for good, slot 2 has yet to start again: neither is given up for the other.
	if got = r.commands("decide", "advance 1s a", "batch a 6 s.2.2=running", "advance 1s a"); strings.Contains(got, "retire") || strings.Contains(got, "scaled") {
		t.Errorf("the update takes away what it then wants back:\n%s", got)
	}
}

func TestWhatAnUpdateHasNotSeenRunForLongGoesFirstWhenItsSurgeEnds(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := taskstate.Job{ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 2, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("batch a 1 s.1.1=running s.2.1=running", "member b", "hello b")
	job.Count = 3
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.commands("batch b 1 s.3.1=running")
	j, fewer := r.core.jobs.of("s"), job
	fewer.Count = 2
	j.job = &fewer
	if got := r.core.upkeep.serviceChange(j, r.core.upkeep.rolloutOf(j), rollout.Output{}); !slices.Equal(got.Retire, []int{2}) {
		t.Fatalf("%v go, want a task of a, which has two", got.Retire)
	}
	if got := r.core.upkeep.serviceChange(j, r.core.upkeep.rolloutOf(j), rollout.Output{Fresh: []int{3}}); !slices.Equal(got.Retire, []int{3}) {
		t.Errorf("%v go, want the task that may not last", got.Retire)
	}
}

func TestAfterAnElectionNothingIsTakenDownBeforeItIsKnownWhatIsDown(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := taskstate.Job{
		ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 2, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}},
		Restart: &taskstate.Restart{Condition: taskstate.RestartAny}, Resources: taskstate.Resources{MilliCPU: 1000},
	}
	r.commands("member a", "hello a cpus=1", "member b", "hello b cpus=1")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("batch a 1 s.1.1=running", "batch b 1 s.2.1=running", "batch b 2 s.2.1=failed", "advance 1s a b")
	r.hold = true
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	r.take() // the coordinator of then knew
	if got := r.commands("elect", "decide", "hello a cpus=1 s.1.1=running"); strings.Contains(got, "renew") {
		t.Errorf("nobody knows yet what b runs, and:\n%s", got)
	}
	if got := r.commands("hello b cpus=1"); !strings.Contains(got, "renew s[2.2] v2 (updated)") {
		t.Errorf("slot 2, which does not run, is not updated first:\n%s", got)
	}
}

// Gossip sees the peer, but it has not come back: for all that anybody knows, what was given to it
// never started.
func TestATaskOnAPeerThatDoesNotComeBackAfterAnElectionIsTakenForDown(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := taskstate.Job{
		ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 3, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: 1}},
		Restart: &taskstate.Restart{Condition: taskstate.RestartAny}, Resources: taskstate.Resources{MilliCPU: 1000}, MaxPerPeer: 1,
	}
	job.Unreachable.Wait = true
	r.commands("member a", "hello a cpus=1", "member b", "hello b cpus=1", "member c", "hello c cpus=1")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	at := map[string]string{} // slot by peer
	for _, open := range r.core.openTasks() {
		id, rest, _ := strings.Cut(open, " on ")
		at[rest[:1]] = id
	}
	r.commands("elect", "verdict c alive", "hello a cpus=1 "+at["a"]+"=running", "hello b cpus=1 "+at["b"]+"=running", "advance 60s a b")
	job.Run.Noop = &taskstate.Noop{Duration: 2}
	r.hold = true
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	slot := strings.Split(at["c"], ".")[1]
	if got := r.take(); !strings.Contains(got, "renew s["+slot+".1] v2 (updated)") {
		t.Errorf("slot %s is not updated first, though two run:\n%s", slot, got)
	}
}

func TestSlotsThatAreAddedWhileACoordinatorBeginsAnewAreAddedOnce(t *testing.T) {
	r := newRig(t, CoreConfig{})
	job := taskstate.Job{ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	r.commands("member a", "hello a")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.hold = true
	job.Count = 3
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	underWay := r.pending[0]
	r.build(CoreConfig{}) // it has lost track, in the same term: what it proposed may still be decided
	r.apply(underWay...)
	r.hold = false
	r.step()
	if rec, _ := r.state.Job("s"); rec.Slots() != 3 || r.over != "" {
		t.Errorf("%d slots, want 3 (%s)", rec.Slots(), r.over)
	}
}
