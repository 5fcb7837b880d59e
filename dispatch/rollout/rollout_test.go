package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/rollout"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// cluster is a dumb service: slots take the version they are told to, run after a while, and may
// fail.
type cluster struct {
	update  taskstate.Update
	phase   taskstate.RolloutState
	target  int
	want    int
	slots   []rollout.Slot
	due     map[int]int64 // when a slot goes on to its next state
	bad     map[int]bool  // versions whose tasks end at once
	faulty  map[int]bool  // slots whose tasks of version 2 do
	now     int64
	message string
}

func service(n int, u taskstate.Update) *cluster {
	f := &cluster{update: u, phase: taskstate.RolloutUpdating, target: 2, want: n, due: map[int]int64{}, bad: map[int]bool{}, faulty: map[int]bool{}, now: 1_000_000}
	for i := range n {
		f.slots = append(f.slots, rollout.Slot{N: i + 1, Version: 1, Running: true})
	}
	return f
}

func (f *cluster) step() rollout.Output {
	return rollout.Step(rollout.Input{Update: f.update, Phase: f.phase, Target: f.target, Slots: f.slots, Now: f.now})
}

func (f *cluster) running() (n int) {
	for _, s := range f.slots {
		if s.Running && !s.Leaving {
			n++
		}
	}
	return n
}

// carryOut does what a step says. Changes take some milliseconds.
func (f *cluster) carryOut(out rollout.Output, lag func() int64) {
	for _, n := range out.Renew {
		s := &f.slots[n-1]
		*s = rollout.Slot{N: n, Version: f.target, Leaving: true, Surge: s.Surge}
		f.due[n] = f.now + lag()
	}
	surge := len(f.slots) - f.want
	for ; surge < out.Surge; surge++ {
		n := len(f.slots) + 1
		f.slots = append(f.slots, rollout.Slot{N: n, Version: f.target, Surge: true, Leaving: true})
		f.due[n] = f.now + lag()
	}
	if surge > out.Surge {
		f.slots = f.slots[:f.want+out.Surge]
	}
	if out.Phase != taskstate.RolloutNone {
		if out.Phase == taskstate.RolloutRollingBack {
			f.target = 1
			for i := range f.slots {
				f.slots[i].Failed = false
			}
		}
		f.phase, f.message = out.Phase, out.Message
	}
}

func (f *cluster) pass(lag func() int64) {
	f.now += 10
	for i := range f.slots {
		s := &f.slots[i]
		if f.now < f.due[s.N] || f.due[s.N] == 0 {
			continue
		}
		delete(f.due, s.N)
		switch {
		case s.Leaving:
			s.Leaving, f.due[s.N] = false, f.now+lag()
		case !s.Running:
			s.Running, s.Since = true, f.now
			if f.fails(s) {
				f.due[s.N] = f.now + 5
			}
		case f.fails(s):
			s.Running, f.due[s.N] = false, f.now+lag()
			if s.Version == f.target && !s.Failed {
				s.Failed, s.FailedAt = true, f.now
			}
		}
	}
}

func (f *cluster) fails(s *rollout.Slot) bool {
	return f.bad[s.Version] || s.Version == 2 && f.faulty[s.N]
}

func (f *cluster) failed() (n int) {
	for _, s := range f.slots {
		if s.Failed {
			n++
		}
	}
	return n
}

func drawUpdate(t *rapid.T) taskstate.Update {
	return taskstate.Update{
		Parallelism: rapid.IntRange(0, 4).Draw(t, "parallelism"), Delay: rapid.Int64Range(0, 100).Draw(t, "delay"),
		Monitor: rapid.Int64Range(10, 200).Draw(t, "monitor"), MaxFailureRatio: rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "ratio"),
		OnFailure: rapid.SampledFrom([]taskstate.FailureAction{"", taskstate.PauseUpdate, taskstate.ContinueUpdate, taskstate.RollBackUpdate}).Draw(t, "on failure"),
		Order:     rapid.SampledFrom([]taskstate.UpdateOrder{"", taskstate.StopFirst, taskstate.StartFirst}).Draw(t, "order"),
	}
}

func TestAnUpdateReachesEverySlotAndNeverTakesMoreDownOrUpThanAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := service(rapid.IntRange(0, 9).Draw(t, "slots"), drawUpdate(t))
		lags := rapid.SliceOfN(rapid.Int64Range(0, 300), 1, 20).Draw(t, "lags")
		lag := func() int64 { x := lags[0]; lags = append(lags[1:], x); return x + 1 }
		par := f.update.Parallelism
		if par == 0 {
			par = f.want
		}
		for range 100_000 {
			f.carryOut(f.step(), lag)
			low, high := f.want-par, f.want
			if f.update.Order == taskstate.StartFirst {
				low, high = f.want, f.want+par
			}
			if n := f.running(); n < low || len(f.slots) > high {
				t.Fatalf("%d of %d slots run, %d there are: want at least %d and at most %d", n, f.want, len(f.slots), low, high)
			}
			if !f.phase.Moving() {
				break
			}
			f.pass(lag)
		}
		f.carryOut(f.step(), lag) // ended, it has no surge
		if f.phase != taskstate.RolloutCompleted || len(f.slots) != f.want {
			t.Fatalf("it ended %q with %d slots", f.phase, len(f.slots))
		}
		for _, s := range f.slots {
			if s.Version != 2 || !s.Running {
				t.Fatalf("slot %+v", s)
			}
		}
	})
}

func TestABadVersionTakesDownNoMoreThanWhatIsInFluxAndEndsAsToldTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := drawUpdate(t)
		u.MaxFailureRatio = 0
		f := service(rapid.IntRange(1, 9).Draw(t, "slots"), u)
		f.bad[2] = true
		lag := func() int64 { return 7 }
		touched := map[int]bool{}
		for range 20_000 {
			out := f.step()
			if f.phase == taskstate.RolloutUpdating {
				for _, n := range out.Renew {
					touched[n] = true
				}
			}
			f.carryOut(out, lag)
			if !f.phase.Moving() {
				break
			}
			f.pass(lag)
		}
		want := taskstate.RolloutPaused
		switch u.OnFailure {
		case taskstate.ContinueUpdate:
			want = taskstate.RolloutCompleted // it reaches all of them, and says that it failed there
		case taskstate.RollBackUpdate:
			want = taskstate.RolloutRolledBack
		}
		if f.phase != want {
			t.Fatalf("it ended %q (%s), want %q", f.phase, f.message, want)
		}
		if par := u.Parallelism; par > 0 && len(touched) > par && want != taskstate.RolloutCompleted {
			t.Fatalf("slots %v were given a version that cannot run, %d at once are allowed", touched, par)
		}
		if want == taskstate.RolloutRolledBack {
			if i := slices.IndexFunc(f.slots, func(s rollout.Slot) bool { return s.Version == 2 || !s.Running }); i >= 0 {
				t.Fatalf("slot %+v after the rollback", f.slots[i])
			}
		}
	})
}

// The slots that fail are restarted for ever, as those of services are by default.
func TestAnUpdateBearsAsManyFailedSlotsAsItsRatioAndEndsEitherWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := drawUpdate(t)
		u.MaxFailureRatio = rapid.Float64Range(0, 1).Draw(t, "ratio")
		f := service(rapid.IntRange(1, 9).Draw(t, "slots"), u)
		for n := range f.want + 4 { // a surge may fail, too
			f.faulty[n+1] = rapid.Bool().Draw(t, "fails")
		}
		bears := int(u.MaxFailureRatio*float64(f.want) + 1e-9)
		touched := map[int]bool{} // and the new version fails there
		for range 50_000 {
			out := f.step()
			if f.phase == taskstate.RolloutUpdating {
				for _, n := range out.Renew {
					touched[n] = f.faulty[n]
				}
			}
			maps.DeleteFunc(touched, func(_ int, fails bool) bool { return !fails })
			before, failed := f.phase, f.failed()
			f.carryOut(out, func() int64 { return 7 })
			if stopped := f.phase != before && f.phase != taskstate.RolloutCompleted; before == taskstate.RolloutUpdating && stopped != (failed > bears && u.OnFailure != taskstate.ContinueUpdate) {
				t.Fatalf("%d of %d slots failed, it bears %d, and it is %q (%s)", failed, f.want, bears, f.phase, f.message)
			}
			if !f.phase.Moving() {
				break
			}
			f.pass(func() int64 { return 7 })
		}
		if f.phase.Moving() {
			t.Fatalf("it is still %q: %d of %d slots failed, it bears %d; %+v", f.phase, f.failed(), f.want, bears, f.slots)
		}
		if most := bears + u.Parallelism; u.Parallelism > 0 && u.OnFailure != taskstate.ContinueUpdate && f.phase != taskstate.RolloutCompleted && len(touched) > most {
			t.Fatalf("slots %v were given a version that fails, %d at once are allowed and %d may fail", touched, u.Parallelism, bears)
		}
	})
}

func TestAShareOfTheSlotsIsNotLostToRounding(t *testing.T) {
	f := service(100, taskstate.Update{Parallelism: 0, Monitor: 50, MaxFailureRatio: 0.29})
	for i := range f.slots {
		f.slots[i] = rollout.Slot{N: i + 1, Version: 2, Done: true, Failed: i < 29}
	}
	if out := f.step(); out.Phase != taskstate.RolloutCompleted || out.Message != "version 2 has reached all 100 slots and failed on 29" {
		t.Errorf("%+v", out)
	}
	f.slots[29].Failed = true
	if out := f.step(); out.Phase != taskstate.RolloutPaused {
		t.Errorf("%+v", out)
	}
}

func TestTheDelayBetweenSlotsHoldsAfterAFailureToo(t *testing.T) {
	f := service(2, taskstate.Update{Parallelism: 1, Monitor: 50, Delay: 30, OnFailure: taskstate.ContinueUpdate})
	f.slots[0] = rollout.Slot{N: 1, Version: 2, Failed: true, FailedAt: f.now}
	out := f.step()
	if out.Renew != nil || out.Wake != f.now+30 {
		t.Fatalf("%+v", out)
	}
	f.now = out.Wake
	if out := f.step(); !slices.Equal(out.Renew, []int{2}) {
		t.Errorf("then %+v", out)
	}
}

func TestARollbackThatFailsEndsPausedAndStaysPaused(t *testing.T) {
	f := service(3, taskstate.Update{Parallelism: 1, Monitor: 50, OnFailure: taskstate.RollBackUpdate})
	f.bad[1], f.bad[2] = true, true
	for range 10_000 {
		f.carryOut(f.step(), func() int64 { return 7 })
		f.pass(func() int64 { return 7 })
	}
	if f.phase != taskstate.RolloutRollbackPaused {
		t.Fatalf("it ended %q (%s)", f.phase, f.message)
	}
	if out := f.step(); fmt.Sprint(out) != fmt.Sprint(rollout.Output{}) {
		t.Errorf("and then %+v", out)
	}
}

func TestAnUpdateIsCompleteBeforeItsSurgeGoes(t *testing.T) {
	f := service(1, taskstate.Update{Parallelism: 1, Monitor: 50, Order: taskstate.StartFirst})
	f.slots = []rollout.Slot{{N: 1, Version: 2, Done: true}, {N: 2, Version: 2, Surge: true}}
	if out := f.step(); out.Phase != taskstate.RolloutCompleted || out.Surge != 1 {
		t.Errorf("what goes first could be what has ended, and then the surge were watched in its place: %+v", out)
	}
}

func TestASlotThatDoesNotRunIsChangedFirst(t *testing.T) {
	f := service(3, taskstate.Update{Parallelism: 1, Monitor: 50})
	f.slots[1].Running = false
	if out := f.step(); !slices.Equal(out.Renew, []int{2}) {
		t.Errorf("%+v", out)
	}
}

// Seed 504708: a task that nobody had heard of yet after an election was changed, and ran, beside
// one that waited for its peer.
func TestASlotThatIsDownForCertainIsChangedBeforeOneThatMayRunUnheard(t *testing.T) {
	f := service(4, taskstate.Update{Parallelism: 1, Monitor: 50})
	f.slots[1].Running = false
	f.slots[2].Running, f.slots[2].Down = false, true
	if out := f.step(); !slices.Equal(out.Renew, []int{3}) {
		t.Fatalf("%+v", out)
	}
	f.slots[2].Version = f.target
	if out := f.step(); len(out.Renew) > 0 {
		t.Fatalf("beside the one that waits: %+v", out)
	}
}

// What another update took down, and what may run unheard, would both be down otherwise.
func TestASlotThatAnUpdateBeforeToldToEndIsChangedBeforeOneThatMayRunUnheard(t *testing.T) {
	f := service(4, taskstate.Update{Parallelism: 1, Monitor: 50})
	f.slots[1].Running = false
	f.slots[3].Running, f.slots[3].Leaving = false, true
	if out := f.step(); !slices.Equal(out.Renew, []int{4}) {
		t.Errorf("%+v", out)
	}
}

// Whatever failed there before runs now; with the one unheard of it would be two that are down.
func TestASlotThatMayRunUnheardIsChangedBeforeOneThatRunsWhatFailedThere(t *testing.T) {
	f := service(4, taskstate.Update{Parallelism: 1, Monitor: 50})
	f.slots[0].Failing = true
	f.slots[3].Running = false
	if out := f.step(); !slices.Equal(out.Renew, []int{4}) {
		t.Errorf("%+v", out)
	}
}

// A rollback counts what never left the version before as its own; some of that may have begun just
// now.
func TestARollbackReplacesWhatFailsWithoutWaitingForWhatRuns(t *testing.T) {
	young := rollout.Slot{Version: 3, Running: true, Since: 999_990}
	failing := rollout.Slot{Version: 2, Failing: true, Running: true}
	down := rollout.Slot{Version: 2, Failing: true, Down: true}
	well := rollout.Slot{Version: 2, Running: true}
	moving := rollout.Slot{Version: 3, Leaving: true}
	for name, c := range map[string]struct {
		slots []rollout.Slot
		renew []int
	}{
		"what fails":                      {[]rollout.Slot{young, young, failing}, []int{3}},
		"what is down, before what fails": {[]rollout.Slot{young, failing, down}, []int{3}},
		"no more at once than it may":     {[]rollout.Slot{young, moving, failing}, nil},
		"what runs waits for what runs":   {[]rollout.Slot{young, young, well}, nil},
		"the next, as soon as one runs":   {[]rollout.Slot{young, failing, failing}, []int{2}},
		"what fails, before what runs":    {[]rollout.Slot{well, well, failing}, []int{3}},
		"nothing, where all is as it was": {[]rollout.Slot{young, young}, nil},
	} {
		for i := range c.slots {
			c.slots[i].N = i + 1
		}
		for _, order := range []taskstate.UpdateOrder{taskstate.StopFirst, taskstate.StartFirst} {
			in := rollout.Input{
				Update: taskstate.Update{Parallelism: 1, Monitor: 60_000, Delay: 1000, Order: order}, Phase: taskstate.RolloutRollingBack, Target: 3, Slots: c.slots, Now: 1_000_000,
			}
			if got := rollout.Step(in).Renew; !slices.Equal(got, c.renew) {
				t.Errorf("%s, %s: slots %v change, want %v", order, name, got, c.renew)
			}
			if in.Phase = taskstate.RolloutUpdating; c.slots[0].Version == 3 && len(rollout.Step(in).Renew) > 0 {
				t.Errorf("%s, %s: an update to what nobody knows goes on past what it watches", order, name)
			}
		}
	}
}

func TestAPausedUpdateDoesNothing(t *testing.T) {
	for _, p := range []taskstate.RolloutState{taskstate.RolloutNone, taskstate.RolloutPaused, taskstate.RolloutCompleted, taskstate.RolloutRolledBack, taskstate.RolloutRollbackPaused} {
		f := service(3, taskstate.Update{Parallelism: 1})
		f.phase = p
		if out := f.step(); out.Renew != nil || out.Phase != taskstate.RolloutNone || out.Surge != 0 {
			t.Errorf("%s: %+v", p, out)
		}
	}
}

func TestAStepSaysWhenTimeAloneWillChangeItsMind(t *testing.T) {
	f := service(2, taskstate.Update{Parallelism: 1, Monitor: 50, Delay: 30})
	f.slots[0] = rollout.Slot{N: 1, Version: 2, Running: true, Since: f.now}
	out := f.step()
	if out.Renew != nil || out.Wake != f.now+80 {
		t.Fatalf("%+v", out)
	}
	f.now = out.Wake
	if out := f.step(); !slices.Equal(out.Renew, []int{2}) {
		t.Errorf("then %+v", out)
	}
}
