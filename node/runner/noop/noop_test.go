package noop

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

const testJob = taskstate.JobID("k3v5q7x2ab")

func job(d time.Duration) *taskstate.Job {
	return &taskstate.Job{ID: testJob, Name: "n", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: d.Milliseconds()}}}
}

func launch(j *taskstate.Job, slot int) taskstate.Launch {
	return taskstate.Launch{Task: taskstate.Task(j.ID, slot, 1), Job: j}
}

// bubble runs f with an executor in virtual time.
func bubble(t *testing.T, lasting bool, f func(t *testing.T, e *Executor, reports func() []taskstate.RunReport)) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []taskstate.RunReport
		e := New(func(r ...taskstate.RunReport) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r...)
		}, lasting)
		f(t, e, func() []taskstate.RunReport {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(got)
		})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestANoopOfNoDurationIsCompleteAtOnce(t *testing.T) {
	bubble(t, false, func(t *testing.T, e *Executor, reports func() []taskstate.RunReport) {
		e.Start(launch(job(0), 1))
		if got := reports(); len(got) != 2 || got[0].State != taskstate.Running || got[1].State != taskstate.Complete || got[1].Exit != 0 {
			t.Fatalf("reports = %+v", got)
		}
	})
}

func TestThousandsOfNoopsEndEachInItsTime(t *testing.T) {
	bubble(t, false, func(t *testing.T, e *Executor, reports func() []taskstate.RunReport) {
		began := time.Now()
		const n = 5000
		takes := func(slot int) int64 { return int64(slot*7919%n + 1) }
		for slot := 1; slot <= n; slot++ {
			e.Start(launch(job(time.Duration(takes(slot))*time.Millisecond), slot))
		}
		ends := map[taskstate.TaskID]bool{}
		for time.Since(began) < n*time.Millisecond/2 { // what is to have ended by now has, and nothing else
			time.Sleep(n * time.Millisecond / 10)
			for _, r := range reports() {
				if r.State.Final() {
					ends[r.Task] = true
				}
			}
			for slot := 1; slot <= n; slot++ {
				if ended, want := ends[taskstate.Task(testJob, slot, 1)], takes(slot) <= time.Since(began).Milliseconds(); ended != want {
					t.Fatalf("after %v the end of one that takes %d ms: %v", time.Since(began), takes(slot), ended)
				}
			}
		}
		time.Sleep(n * time.Millisecond)
		for _, r := range reports() {
			if r.State.Final() && r.Took != takes(r.Task.Slot) {
				t.Fatalf("%v took %d ms, want %d", r.Task, r.Took, takes(r.Task.Slot))
			}
		}
		if got := reports(); len(got) != 2*n {
			t.Fatalf("%d reports of %d tasks", len(got), n)
		}
	})
}

func TestANoopCanBeStoppedAndTimesOut(t *testing.T) {
	bubble(t, false, func(t *testing.T, e *Executor, reports func() []taskstate.RunReport) {
		limited := job(time.Hour)
		limited.Timeout = 2000
		e.Start(launch(job(time.Hour), 1))
		e.Start(launch(limited, 2))
		e.Stop(taskstate.Task(testJob, 1, 1), taskstate.ReasonCancelled)
		time.Sleep(3 * time.Second)
		var ends []taskstate.RunReport
		for _, r := range reports() {
			if r.State.Final() {
				ends = append(ends, r)
			}
		}
		if len(ends) != 2 || ends[0].State != taskstate.Shutdown || ends[0].Reason != taskstate.ReasonCancelled {
			t.Fatalf("ends = %+v", ends)
		}
		if ends[1].State != taskstate.Failed || ends[1].Reason != taskstate.ReasonTimeout || ends[1].Exit != taskstate.NoExit {
			t.Fatalf("ends = %+v", ends)
		}
	})
}

func TestATaskIsNotStartedTwice(t *testing.T) {
	bubble(t, false, func(t *testing.T, e *Executor, reports func() []taskstate.RunReport) {
		for range 3 {
			e.Start(launch(job(time.Second), 1))
		}
		time.Sleep(time.Minute)
		if got := reports(); len(got) != 2 {
			t.Fatalf("reports = %+v", got)
		}
	})
}

func TestANoopGoesOnWhereItWas(t *testing.T) {
	bubble(t, true, func(t *testing.T, e *Executor, reports func() []taskstate.RunReport) {
		time.Sleep(2 * time.Hour)
		over, half, fresh := launch(job(time.Hour), 1), launch(job(4*time.Hour), 2), launch(job(time.Hour), 3)
		over.Since = time.Now().Add(-2 * time.Hour).UnixMilli()
		half.Since = over.Since
		if lost := e.Adopt([]taskstate.Launch{over, half, fresh}); len(lost) != 1 || lost[0].Task != fresh.Task || !lost[0].Never {
			t.Fatalf("%+v", lost)
		}
		if got := reports(); len(got) != 1 || got[0].Task != over.Task || got[0].State != taskstate.Complete {
			t.Fatalf("reports = %+v", got)
		}
		time.Sleep(2 * time.Hour)
		if got := reports(); len(got) != 2 || got[1].Task != half.Task || got[1].Took != 4*time.Hour.Milliseconds() {
			t.Fatalf("reports = %+v", got)
		}
	})
}

func TestWhatRunsAtCloseIsInterruptedUnlessItGoesOnLater(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		bubble(t, lasting, func(t *testing.T, e *Executor, reports func() []taskstate.RunReport) {
			e.Start(launch(job(time.Hour), 1))
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e.Start(launch(job(time.Hour), 2)) // nothing starts any more
			time.Sleep(2 * time.Hour)
			got := reports()
			if interrupted := len(got) == 2 && got[1].State == taskstate.Shutdown && got[1].Reason == taskstate.ReasonInterrupted; interrupted == lasting || lasting && len(got) != 1 {
				t.Fatalf("lasting %v: reports = %+v", lasting, got)
			}
		})
	}
}
