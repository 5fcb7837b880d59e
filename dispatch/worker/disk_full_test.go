package worker

import (
	"slices"
	"syscall"
	"testing"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// The worker gives its word, and ends before its disk knows. What it comes back with, from its
// journal, it does not start.
func TestAWordHoldsWhenTheWorkerEndsBeforeItsDiskKnows(t *testing.T) {
	for _, job := range []taskstate.JobID{jobWork, jobOnce} {
		b := newBox(t)
		b.session(1, grantOf(job, 1, 5)) // two run, three wait
		b.settle()
		if len(b.running) != 2 {
			t.Fatalf("%v run", b.sorted())
		}
		b.step(Sick{syscall.ENOSPC})
		b.ups = nil
		d := setOf(false, 1, 1, 2)
		d.Assignments.Recall = []taskstate.TaskID{wtask(job, 2), wtask(job, 4), wtask(job, 5)}
		b.down(d)
		var back []taskstate.TaskID
		for _, u := range b.ups {
			if u.Dropped != nil {
				back = append(back, u.Dropped.Tasks...)
			}
			if u.Batch != nil {
				t.Error("an end was told that no disk knows")
			}
		}
		if want := []taskstate.TaskID{wtask(job, 4), wtask(job, 5)}; !slices.Equal(back, want) {
			t.Fatalf("given back: %v, want %v: what runs is not", back, want)
		}
		running := b.sorted()
		b.fate = func(taskstate.TaskID) fate { return fateRuns }
		b.crash(false)
		for _, id := range running {
			b.finish(id, taskstate.Complete, "")
		}
		b.session(1, grantOf(job, 1, 3)) // the ledger gave 4 and 5 to others
		b.settle()
		for _, id := range back {
			if b.started[id] > 0 {
				t.Errorf("%v was started after all", id)
			}
		}
		if b.started[wtask(job, 3)] != 1 {
			t.Errorf("%v, which it still has, does not start", wtask(job, 3))
		}
	}
}

func TestAWordIsRepeatedInEverySessionUntilTheDiskKnows(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.settle()
	b.step(Sick{syscall.ENOSPC})
	d := setOf(false, 1, 1, 2)
	d.Assignments.Recall = []taskstate.TaskID{wtask(jobWork, 3)}
	b.down(d)
	words := func() (n int) {
		for _, u := range b.ups {
			if u.Dropped != nil {
				n += len(u.Dropped.Tasks)
			}
		}
		b.ups = nil
		return n
	}
	if n := words(); n != 1 {
		t.Fatalf("said %d times at first", n)
	}
	for term := range uint64(2) {
		b.step(Closed{b.stream})
		b.open()
		b.down(welcomeIn(1 + term)) // the second one is of an epoch no disk knows yet
		if n := words(); n != 1 {
			t.Errorf("said %d times in a new session of term %d", n, 1+term)
		}
	}
	b.step(Sick{nil})
	b.settle()
	b.step(Closed{b.stream})
	b.open()
	b.down(welcomeIn(2))
	b.settle()
	if n := words(); n != 0 {
		t.Errorf("said %d times although the end is on disk, and told", n)
	}
}

// What is asked for before the worker knows how it is with its disk counts when it does.
func TestARecallThatWaitsForTheNewEpochIsAnsweredWhenTheDiskTurnsOutToTakeNothing(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.settle()
	b.step(Closed{b.stream})
	b.open()
	b.down(welcomeIn(2))
	d := setOf(true, 2, 0, 1, grantOf(jobWork, 1, 3))
	d.Assignments.Recall = []taskstate.TaskID{wtask(jobWork, 3)}
	b.down(d)
	b.ups = nil
	b.step(Sick{syscall.ENOSPC})
	if !slices.ContainsFunc(b.ups, func(u session.Up) bool {
		return u.Dropped != nil && slices.Equal(u.Dropped.Tasks, d.Assignments.Recall)
	}) {
		t.Errorf("it said %+v", b.ups)
	}
}
