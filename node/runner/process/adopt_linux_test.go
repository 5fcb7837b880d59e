package process

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

func TestWhoLeavesTheGroupButHoldsTheOutputEndsWithTheTask(t *testing.T) {
	h := start(t, nil)
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid here")
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l := launch(shell("setsid sh -c 'exec 3>%s; echo >up; while :; do echo more; sleep 0.01; done' & until [ -e up ]; do sleep 0.01; done", fifo), 1)
	h.Start(l)
	r, err := os.Open(fifo) // returns once it is up, in a session of its own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if end := h.end(l.Task); end.State != taskstate.Complete {
		t.Fatalf("end = %+v", end)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) { // would hang if it lived
		t.Fatalf("%d, %v", n, err)
	}
}

func TestAWriterThatIsNobodysTaskIsLeftAloneAndWhatItWroteIsCutAway(t *testing.T) {
	home := t.TempDir()
	f, err := os.Create(filepath.Join(home, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString("the task's\nnot the task's\n"); err != nil {
		t.Fatal(err)
	}
	e := endedTask{task: taskstate.Task(testJob, 1, 1), home: home, sizes: [2]int64{11, 0}}
	s := &lateOutput{log: slog.New(slog.DiscardHandler), list: []endedTask{e}}
	s.look(time.Now()) // this process, which writes, carries no task's name
	if b, err := os.ReadFile(f.Name()); string(b) != "the task's\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestOutputIsLookedAtWhenItsTaskHasBeenOverForAWhileAndAtTheLatestAtClose(t *testing.T) {
	s, began := &lateOutput{log: slog.New(slog.DiscardHandler)}, time.Now()
	var files []string
	for i := range 3 {
		home := t.TempDir()
		files = append(files, filepath.Join(home, "stdout"))
		if err := os.WriteFile(files[i], []byte("the task's\nmore\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.add(endedTask{at: began.Add(time.Duration(i) * time.Hour), task: taskstate.Task(testJob, i+1, 1), home: home, sizes: [2]int64{11, 0}})
	}
	cut := func() (n int) {
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && string(b) == "the task's\n" {
				n++
			}
		}
		return n
	}
	s.look(began.Add(time.Hour))
	if n := cut(); n != 2 {
		t.Fatalf("an hour later %d are as they were at their ends, want 2", n)
	}
	s.list[0].at = began // close comes later than any end
	if s.close(); cut() != 3 {
		t.Fatal("at close the last one is not looked at")
	}
}

// The look for somebody who still writes must not wait for the one who would.
func TestATaskThatPutsAPipeInPlaceOfItsOutputEnds(t *testing.T) {
	h := start(t, nil)
	if _, err := exec.LookPath("mkfifo"); err != nil {
		t.Skip("no mkfifo here")
	}
	l := launch(shell("echo before; rm ../stdout; mkfifo ../stdout"), 1)
	h.Start(l)
	if end := h.end(l.Task); end.State != taskstate.Complete {
		t.Errorf("end = %+v", end)
	}
}
