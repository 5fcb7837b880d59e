package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// refused reports that the machine refused a process for a task that was started.
func (b *box) refused(id taskstate.TaskID) {
	b.t.Helper()
	delete(b.running, id)
	b.step(Ran{[]taskstate.RunReport{{Task: id, State: taskstate.Rejected, Exit: taskstate.NoExit, Reason: taskstate.ReasonStuck, Exhausted: "too many open files"}}})
}

// newestOffer is what the worker told last of what it gives.
func (b *box) newestOffer() session.Offer {
	b.t.Helper()
	all := b.offers()
	if len(all) == 0 {
		b.t.Fatalf("it made no offer")
	}
	return all[len(all)-1]
}

func (b *box) after(d time.Duration) {
	b.t.Helper()
	b.now = b.now.Add(d)
	b.step(nil)
	b.settle()
}

func TestAWorkerWhoseMachineRefusesAProcessRestsAndThenTakesLess(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 4)) // two fit
	wantRunning(t, b, wtask(jobWork, 1), wtask(jobWork, 2))
	b.refused(wtask(jobWork, 2))
	b.settle()

	o := b.newestOffer()
	if o.TroubleCode != "exhausted" || !strings.Contains(o.Trouble, "too many open files") || !strings.Contains(o.Trouble, "ulimit") || o.Resources != (taskstate.Resources{}) {
		t.Errorf("it offers %+v", o)
	}
	back := map[taskstate.TaskID]taskstate.Reason{}
	for _, s := range b.said() {
		if s.State == taskstate.Rejected {
			back[s.Task] = s.Reason
		}
	}
	if len(back) != 3 || back[wtask(jobWork, 2)] != taskstate.ReasonStuck || back[wtask(jobWork, 3)] != taskstate.ReasonRecalled {
		t.Errorf("given back: %v", back)
	}
	wantRunning(t, b, wtask(jobWork, 1)) // what runs goes on
	b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1)))
	b.settle()
	if s := b.said(); len(s) != 1 || s[0].Reason != taskstate.ReasonRecalled {
		t.Errorf("of what came during the rest: %+v", s)
	}

	b.after(restFirst)
	if o := b.newestOffer(); o.Trouble != "" || o.Resources.MilliCPU != 1000 || o.Resources.Memory != testOffer().Resources.Memory {
		t.Errorf("after the rest it offers %+v", o)
	}
	b.down(setOf(false, 1, 2, 3, grantOf(jobWork, 5, 1), grantOf(jobPair, 1, 1)))
	b.settle()
	if s := b.said(); len(s) == 0 || s[0].Task != wtask(jobPair, 1) || s[0].Reason != taskstate.ReasonRecalled {
		t.Errorf("what needs more than its share waits there: %+v", s)
	}
	wantRunning(t, b, wtask(jobWork, 1))
	b.finish(wtask(jobWork, 1), taskstate.Complete, "")
	b.settle()
	wantRunning(t, b, wtask(jobWork, 5))

	b.after(widenEvery)
	if o := b.newestOffer(); o.Resources != testOffer().Resources {
		t.Errorf("a while later it offers %+v", o)
	}
	if c := b.core; c.exhaustion != (exhaustion{}) {
		t.Errorf("left: %+v", c.exhaustion)
	}
}

func TestRefusalsThatComeTogetherAreOneAndThoseThatFollowSoonMakeTheRestLonger(t *testing.T) {
	var x exhaustion
	now := workerBirth
	cpus := func(n int64) taskstate.Resources { return taskstate.Resources{MilliCPU: n * 1000} }
	x.refused("one", cpus(9), now)
	x.refused("two", cpus(8), now.Add(time.Second))
	if until := now.Add(restFirst); x.until != until || x.limit(cpus(64)) != cpus(8) {
		t.Errorf("it rests until %v with %+v", x.until.Sub(now), x.limit(cpus(64)))
	}
	for rest := 2 * restFirst; rest < 4*restMost; rest *= 2 {
		now = x.until.Add(time.Second)
		x.refused("again", cpus(0), now)
		if got := x.until.Sub(now); got != min(rest, restMost) {
			t.Errorf("it rests for %v, want %v", got, min(rest, restMost))
		}
		if x.limit(cpus(64)) != cpus(1) {
			t.Errorf("one task may always be tried: %+v", x.limit(cpus(64)))
		}
	}
	widened := 0
	for now = x.until; x.why != nil; now = x.wake(now) {
		x.passed(now, cpus(64))
		widened++
	}
	if widened < 5 || widened > 15 {
		t.Errorf("all is offered again after %d steps", widened)
	}
	x.refused("much later", cpus(3), now)
	if got := x.until.Sub(now); got != restFirst {
		t.Errorf("it rests for %v, want %v", got, restFirst)
	}
}
