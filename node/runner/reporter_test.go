package runner

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

func TestASinkThatBlocksDelaysReportsAndNothingElse(t *testing.T) {
	gate, first := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var got []taskstate.RunReport
	r := newReporter(func(rep taskstate.RunReport) {
		once.Do(func() { close(first) })
		<-gate
		got = append(got, rep)
	})
	const n = 1000
	for slot := 1; slot <= n; slot++ {
		r.add(taskstate.RunReport{Task: taskstate.Task("k3v5q7x2ab", slot, 1)}) // would hang here if it waited for the sink
	}
	<-first
	close(gate)
	r.close()
	for i, rep := range got {
		if rep.Task.Slot != i+1 || rep.At == 0 {
			t.Fatalf("report %d is %+v", i+1, rep)
		}
	}
	if len(got) != n {
		t.Fatalf("%d reports of %d", len(got), n)
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

// BenchmarkNoop is what a task costs the runner when there is nothing to do.
func BenchmarkNoop(b *testing.B) {
	var all sync.WaitGroup
	r, err := New(func(rep taskstate.RunReport) {
		if rep.State.Final() {
			all.Done()
		}
	}, Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	task := launch(nothing(0*time.Second), 1)
	all.Add(b.N)
	b.ReportAllocs()
	for i := range b.N {
		task.Task.Slot = i + 1
		r.Start(task)
	}
	all.Wait()
}
