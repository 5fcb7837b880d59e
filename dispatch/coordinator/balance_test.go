package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// runningOf counts the tasks of a job that run on each worker, and all of them.
func (f *faultCluster) runningOf(job taskstate.JobID) (on map[string]int, all int) {
	on = map[string]int{}
	for _, w := range f.workers {
		for id, t := range w.tasks {
			if id.Job == job && t.state == taskstate.Running {
				on[w.id]++
				all++
			}
		}
	}
	return on, all
}

func TestARebalanceHasNoMoreTasksDownThanAnUpdateMayAndEndsEven(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFaultCluster(t, rt.Fatalf)
		f.fails = func(*modelWorker) bool { return false }
		for _, w := range f.workers {
			w.cpus, f.dur[w.id] = 100_000, 1000*time.Hour
		}
		job := serviceOf("s", rapid.IntRange(3, 12).Draw(rt, "count"))
		update := taskstate.DefaultUpdate()
		update.Parallelism = rapid.IntRange(0, 3).Draw(rt, "parallelism")
		update.Monitor = int64(rapid.IntRange(0, 3000).Draw(rt, "monitor"))
		update.Delay = int64(rapid.IntRange(0, 1000).Draw(rt, "delay"))
		job.Update = &update
		early := rapid.IntRange(1, 2).Draw(rt, "peers at first")
		for _, w := range f.workers[:early] {
			w.connect()
		}
		f.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
		f.turn()
		for _, w := range f.workers[early:] {
			w.connect()
		}
		f.turn()
		moves, busy := f.core.Rebalance("s")
		if busy || len(moves) == 0 {
			rt.Fatalf("nothing to move: %v", busy)
		}
		most := update.Parallelism
		if most == 0 {
			most = job.Count
		}
		f.watch = func() {
			if _, n := f.runningOf("s"); job.Count-n > most {
				rt.Fatalf("%d of %d are down, %d may be\n%s", job.Count-n, job.Count, most, tail(f.out.String()))
			}
		}
		f.step(Balance{Job: "s", Moves: len(moves)})
		f.turn()
		for end := f.now.Add(10 * time.Minute); f.core.Wake().Before(end) && f.next(); {
		}
		if got := strings.Count(f.out.String(), "(moved)") - strings.Count(f.out.String(), "renew s"); got != len(moves) {
			rt.Errorf("%d tasks were stopped, want %d", got, len(moves))
		}
		on, n := f.runningOf("s")
		for _, w := range f.workers {
			if n != job.Count || on[w.id] < job.Count/3 || on[w.id] > (job.Count+2)/3 {
				rt.Fatalf("it ends as %v\n%s", on, tail(f.out.String()))
			}
		}
	})
}

// beingMoved is a service all four of whose tasks run on a when b comes, and two of which somebody
// has moved, one after the other.
func beingMoved(t *testing.T) (*rig, taskstate.Job) {
	r := newRig(t, CoreConfig{})
	job := serviceOf("s", 4)
	job.Update = &taskstate.Update{Parallelism: 1, Monitor: 2000}
	r.commands("member a", "hello a cpus=4")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	r.commands("batch a 1 s.1.1=running s.2.1=running s.3.1=running s.4.1=running", "advance 3s a", "member b", "hello b cpus=4")
	r.step(Balance{Job: "s", Moves: 2})
	return r, job
}

func TestTheNextTaskMovesWhenTheOneBeforeHasRunForTheMonitorTime(t *testing.T) {
	r, _ := beingMoved(t)
	if got := r.take(); strings.Count(got, "stop s.") != 1 || !strings.Contains(got, "stop s.3.1 (moved)") {
		t.Fatalf("want the first to be stopped:\n%s", got)
	}
	if got := r.commands("batch a 2 s.3.1=shutdown/moved", "batch b 1 s.3.2=running", "advance 1s a b"); strings.Contains(got, "stop") || !strings.Contains(got, "assign s[3.2] to b") {
		t.Errorf("want it on b, and watched:\n%s", got)
	}
	if got := r.commands("advance 2s a b"); !strings.Contains(got, "stop s.4.1 (moved)") {
		t.Errorf("want the second to follow:\n%s", got)
	}
	got := r.commands("batch a 3 s.4.1=shutdown/moved", "batch b 2 s.4.2=running", "advance 5s a b", "member c", "hello c cpus=4", "advance 5s a b c")
	if strings.Contains(got, "stop") {
		t.Errorf("more is moved than was asked for:\n%s", got)
	}
}

func TestAnUpdateEndsARebalance(t *testing.T) {
	r, job := beingMoved(t)
	r.commands("batch a 2 s.3.1=shutdown/moved")
	job.Timeout = 1000
	r.apply(ledger.Command{Update: &ledger.Update{Job: job}})
	if got := r.commands("batch b 1 s.3.2=running", "advance 1s a b"); r.core.jobs.of("s").lasting.moving != 0 || strings.Contains(got, "(moved)") {
		t.Errorf("the update is to place them now:\n%s", got)
	}
}

// Seed 501353: a task that had been given back stood for nothing where it was, and for one more in
// the ledger.
func TestNothingIsMovedWhileATaskMayBeAboutToBeginAnewElsewhere(t *testing.T) {
	f := newFaultCluster(t, t.Fatalf)
	f.fails = func(*modelWorker) bool { return false }
	for _, w := range f.workers {
		w.cpus, f.dur[w.id] = 100_000, 1000*time.Hour
	}
	f.workers[0].connect()
	f.apply(ledger.Command{Submit: &ledger.Submit{Job: serviceOf("s", 4)}})
	f.turn()
	f.workers[1].connect()
	f.turn()
	if moves, busy := f.core.Rebalance("s"); busy || len(moves) != 2 {
		t.Fatalf("%v, busy %t", moves, busy)
	}
	h := f.core.peers.all[f.workers[0].id].holds["s"]
	for _, m := range []attemptFlags{recalled, deciding, ended | deciding} {
		was := h.slots[2]
		r := was
		r.marks |= m
		h.slots[2] = r
		if moves, busy := f.core.Rebalance("s"); !busy {
			t.Errorf("marks %b: %v", m, moves)
		}
		h.slots[2] = was
	}
}
