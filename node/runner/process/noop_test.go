package process

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"covey/taskstate"
)

func TestANoopOfNoDurationIsCompleteAtOnce(t *testing.T) {
	h := start(t, nil)
	id, end := h.run(noop(0))
	if end.State != taskstate.Complete || end.Exit != 0 || !slices.Equal(h.states(id), []taskstate.State{taskstate.Running, taskstate.Complete}) {
		t.Fatalf("end = %+v", end)
	}
}

// bubble runs f with a runner in virtual time.
func bubble(t *testing.T, f func(t *testing.T, r *Runner, reports func() []taskstate.RunReport)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var got []taskstate.RunReport
		r, err := New(Config{Dir: filepath.Join(dir, "tasks"), Sink: func(rep taskstate.RunReport) { got = append(got, rep) }})
		if err != nil {
			t.Fatal(err)
		}
		f(t, r, func() []taskstate.RunReport { synctest.Wait(); return got })
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestThousandsOfNoopsEndEachInItsTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *Runner, reports func() []taskstate.RunReport) {
		began := time.Now().UnixMilli()
		const n = 5000
		for slot := 1; slot <= n; slot++ {
			r.Start(launch(noop(time.Duration(slot*7919%n+1)*time.Millisecond), slot))
		}
		time.Sleep(n * time.Millisecond)
		ends := 0
		for _, rep := range reports() {
			if !rep.State.Final() {
				continue
			}
			ends++
			if want := began + int64(rep.Task.Slot*7919%n+1); rep.At != want {
				t.Fatalf("%v ended at +%d, want +%d", rep.Task, rep.At-began, want-began)
			}
		}
		if ends != n || r.Running() != 0 {
			t.Fatalf("%d ends, %d running", ends, r.Running())
		}
	})
}

func TestANoopCanBeStoppedAndTimesOut(t *testing.T) {
	bubble(t, func(t *testing.T, r *Runner, reports func() []taskstate.RunReport) {
		limited := noop(time.Hour)
		limited.Timeout = 2000
		r.Start(launch(noop(time.Hour), 1))
		r.Start(launch(limited, 2))
		r.Stop(taskstate.Task(testJob, 1, 1), taskstate.ReasonCancelled)
		time.Sleep(3 * time.Second)
		var ends []taskstate.RunReport
		for _, rep := range reports() {
			if rep.State.Final() {
				ends = append(ends, rep)
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

func TestAJobThatSaysNothingRunnableIsRejected(t *testing.T) {
	h := start(t, nil)
	if _, end := h.run(&taskstate.Job{ID: testJob}); end.State != taskstate.Rejected || end.Message == "" {
		t.Fatalf("end = %+v", end)
	}
}

func TestATaskIsNotStartedTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *Runner, reports func() []taskstate.RunReport) {
		for range 3 {
			r.Start(launch(noop(time.Second), 1))
		}
		time.Sleep(time.Minute)
		if got := reports(); len(got) != 2 {
			t.Fatalf("reports = %+v", got)
		}
	})
}

func TestASinkThatBlocksDelaysReportsAndNothingElse(t *testing.T) {
	gate := make(chan struct{})
	first := make(chan struct{}, 1)
	h := start(t, nil)
	inner := h.reports.sink
	h.reports.sink = func(r taskstate.RunReport) {
		select {
		case first <- struct{}{}:
		default:
		}
		<-gate
		inner(r)
	}
	for slot := 1; slot <= 1000; slot++ {
		h.Start(launch(noop(0), slot)) // would hang here if Start waited for the sink
	}
	<-first
	close(gate)
	for slot := 1; slot <= 1000; slot++ {
		h.end(taskstate.Task(testJob, slot, 1))
	}
}

func TestAMessageIsCutBetweenCharacters(t *testing.T) {
	long := ""
	for len(long) <= taskstate.MaxMessage {
		long += "é"
	}
	if got := cutMessage(long); len(got) > taskstate.MaxMessage || !slices.Contains([]rune(got), '…') || slices.Contains([]rune(got), '\uFFFD') {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
