package coordinator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

func cpus(n int) taskstate.Resources { return taskstate.Resources{MilliCPU: int64(n) * 1000} }

// An honest worker starts the first of its queue as soon as there is room: whatever the lengths of
// its tasks, none of them is due.
func TestATaskThatWaitsBehindOthersOnAnHonestWorkerIsNeverTakenFromIt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type task struct {
			heldAttempt
			ends int
		}
		offer, now := rapid.IntRange(1, 4).Draw(r, "cpus"), 0
		var has []task
		var s stalls
		for i := range 60 {
			now += rapid.IntRange(0, 12).Draw(r, "pause")
			has = slices.DeleteFunc(has, func(x task) bool { return x.begun && x.ends <= now })
			if len(has) < 12 {
				has = append(has, task{heldAttempt: heldAttempt{taskstate.Task("j", i+1, 1), uint64(i / 3), cpus(rapid.IntRange(0, offer).Draw(r, "need")), false, false}})
			}
			free := cpus(offer)
			for _, x := range has {
				if x.begun {
					free = free.Sub(x.need)
				}
			}
			for k := range has { // the first that does not fit keeps the others from what it needs
				x := &has[k]
				if x.begun {
					continue
				}
				if !x.need.Fits(free) {
					break
				}
				x.begun, x.ends, free = true, now+rapid.SampledFrom([]int{1, 20, 400}).Draw(r, "length"), free.Sub(x.need)
			}
			var seen []heldAttempt
			for _, x := range has {
				seen = append(seen, x.heldAttempt)
			}
			if due := s.look(cpus(offer), seen, time.Unix(int64(now), 0), 30*time.Second); len(due) > 0 {
				r.Fatalf("%v at %d of %+v", due, now, has)
			}
		}
	})
}

// One that starts nothing loses all that would fit, and one that passes some over for ever loses
// those.
func TestWhatAWorkerDoesNotStartIsDueAfterABoundedTime(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var s stalls
		n := rapid.IntRange(1, 8).Draw(r, "tasks")
		never := rapid.IntRange(0, n-1).Draw(r, "never")
		gone := map[int]bool{}
		for at := 0; ; at += 5 {
			var has []heldAttempt
			for i := range n {
				if !gone[i] {
					has = append(has, heldAttempt{taskstate.Task("j", i+1, 1), uint64(i), cpus(1), false, false})
				}
			}
			due := s.look(cpus(2), has, time.Unix(int64(at), 0), 30*time.Second)
			if slices.Contains(due, taskstate.Task("j", never+1, 1)) {
				return
			}
			if at > 30*(n+1) {
				r.Fatalf("it is not due after %d s", at)
			}
			if i := rapid.IntRange(0, n-1).Draw(r, "ends"); i != never && rapid.Bool().Draw(r, "does it") {
				gone[i] = true
			}
		}
	})
}

func TestAWorkerThatBeatsAndStartsNothingLosesWhatItGotAndIsPassedOver(t *testing.T) {
	r := newRig(t, CoreConfig{StartWithin: 30 * time.Second})
	r.commands("member a", "hello a cpus=2", "submit j count=2 cpus=1", "submit once count=1 wait", "member b", "hello b cpus=2")
	if got := r.commands("advance 29s a b"); strings.Contains(got, "supersede") {
		t.Fatalf("given up too soon:\n%s", got)
	}
	got := r.commands("advance 10s a b")
	if !strings.Contains(got, "supersede j.1.1 (not-started) again") || !strings.Contains(got, "j[1-2.2] to b") || !strings.Contains(got, "stop j.1.1 (not-started)") {
		t.Fatalf("it keeps what it does not start:\n%s", got)
	}
	if strings.Contains(got, "supersede once") {
		t.Fatalf("what must not run twice is given up without a word:\n%s", got)
	}
	if why := r.core.Waiting("once"); !strings.Contains(why, "does not start them: 1; they must not run twice and wait for it, or for you") {
		t.Errorf("once waits: %q", why)
	}
	if peers := r.core.Peers(); !peers[0].PassedOver || peers[0].Peer != "a" || peers[1].PassedOver {
		t.Errorf("who is passed over: %+v", peers)
	}
	r.commands("batch b 1 j.1.2=running j.2.2=running")
	if p := r.core.Peers()[1]; p.Running.MilliCPU != 2000 || p.Promised.MilliCPU != 2000 || p.Away != 0 {
		t.Errorf("b carries %+v", p)
	}
	if got := r.commands("submit k count=1 cpus=1"); !strings.Contains(got, "k[1.1] to b") {
		t.Errorf("it is not passed over:\n%s", got)
	}
	r.commands("batch a 1 once.1.1=running")
	if got := r.commands("submit m count=1 cpus=1"); !strings.Contains(got, "m[1.1] to a") {
		t.Errorf("it starts what it has, and is passed over still:\n%s", got)
	}
}

// The worker runs something that fills it, and says nothing of what came after that.
func TestWhatAWorkerDoesNotEvenAcceptIsGivenBackAlsoWhereThereIsNoRoom(t *testing.T) {
	r := newRig(t, CoreConfig{StartWithin: 30 * time.Second})
	r.commands("member a", "hello a cpus=3", "submit long count=1 cpus=3", "batch a 1 long.1.1=running",
		"submit j count=1 cpus=1", "submit said count=1 cpus=1", "submit once count=1 cpus=1 wait")
	if got := r.commands("batch a 2 said.1.1=accepted", "advance 29s a"); strings.Contains(got, "supersede") || strings.Contains(got, "recall") {
		t.Fatalf("too soon:\n%s", got)
	}
	got := r.commands("advance 10s a")
	if !strings.Contains(got, "supersede j.1.1 (not-started) again") || strings.Contains(got, "said.1.1") || strings.Contains(got, "long.1.1") {
		t.Errorf("%s", got)
	}
	if !strings.Contains(got, "recall once.1.1") || strings.Contains(got, "supersede once") {
		t.Errorf("what must not run twice goes back only when its worker has sworn off it:\n%s", got)
	}
	if got := r.commands("dropped a once.1.1"); !strings.Contains(got, "supersede once.1.1") || !strings.Contains(got, "again") {
		t.Errorf("its worker has: %s", got)
	}
}
