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

	"covey/taskstate"
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
	l := launch(own(shell("setsid sh -c 'exec 3>%s; while :; do echo more; sleep 0.01; done' & sleep 0.3", fifo)), 1)
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
	rel, _ := l.Task.Folder()
	// A process that ends closes its files one after the other, out of anybody's sight, and the
	// fifo may come before the output.
	eventually(t, "nobody writes the output", func() bool { return unwritten(filepath.Join(h.dir, rel, "stdout")) })
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
	e := stray{task: taskstate.Task(testJob, 1, 1), home: home, sizes: [2]int64{11, 0}}
	s := &strays{log: slog.New(slog.DiscardHandler), list: []stray{e}}
	if !e.written() {
		t.Skip("this file system tells nobody who writes")
	}
	s.look() // this process, which writes, carries no task's name
	if b, err := os.ReadFile(f.Name()); string(b) != "the task's\n" {
		t.Errorf("%q, %v", b, err)
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
