package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startStuck starts a task whose disk does not answer: it is being started, and its second file is
// not open before free is called.
func startStuck(t *testing.T, e *Engine, dir, task, line string) (free func()) {
	t.Helper()
	s := specIn(t, dir, task, line)
	path := filepath.Join(s.Home, "stderr")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	e.Start(s)
	for {
		if _, err := os.Stat(filepath.Join(s.Home, "stdout")); err == nil {
			break
		}
		runtime.Gosched()
	}
	return func() {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
	}
}

func TestATaskWhoseDiskIsStuckHoldsUpNoOther(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	free := startStuck(t, e, dir, "a.1.1", "exit 3")
	for slot := 2; slot < 8; slot++ {
		task := fmt.Sprintf("a.%d.1", slot)
		e.Start(specIn(t, dir, task, "exit 4"))
		if end := h.until(task, Event.Final); end.Exit != 4 {
			t.Errorf("%+v", end)
		}
	}
	free()
	if end := h.until("a.1.1", Event.Final); end.Exit != 3 {
		t.Errorf("%+v", end)
	}
}

func TestAStopOfATaskThatIsBeingStartedIsObeyed(t *testing.T) {
	dir := t.TempDir()
	for what, stop := range map[string]func(e *Engine, task string){
		"kindly": func(e *Engine, task string) {
			e.Stop(task, "cancelled")
			e.Stop(task, "another reason") // the first stands
			e.Stop("nobody", "cancelled")
		},
		"at once": func(e *Engine, _ string) { e.KillAll("cancelled") },
	} {
		e, h := engineIn(t, dir), newHeard()
		e.Attach(h.sink)
		free := startStuck(t, e, dir, what+".1.1", "trap '' TERM; while :; do sleep 0.01; done")
		stop(e, what+".1.1")
		free()
		if end := h.until(what+".1.1", Event.Final); end.Kind != Ended || end.Unbegun || end.Reason != "cancelled" || end.Signal == 0 {
			t.Errorf("%s: %+v", what, end)
		}
		if err := e.Close("interrupted"); err != nil {
			t.Error(err)
		}
	}
}

func TestATaskThatWasStoppedBeforeItsTurnIsNeverStarted(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	x := &proc{spec: specIn(t, dir, "a.1.1", "touch ran"), slot: -1}
	e.mu.Lock()
	e.procs["a.1.1"] = x // it waits for its turn
	e.mu.Unlock()
	e.Stop("a.1.1", "cancelled")
	e.fork(x)
	if end := h.until("a.1.1", Event.Final); end.Kind != Ended || !end.Unbegun || end.Reason != "cancelled" {
		t.Errorf("%+v", end)
	}
	if all, err := os.ReadDir(x.spec.Home); err != nil || len(all) > 0 {
		t.Errorf("in its folder: %v, %v", all, err)
	}
	if !e.Idle() {
		t.Error("it is not over")
	}
}

func TestWhatEndsWhileAnotherIsBeingStartedIsSeen(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	s := specIn(t, dir, "a.1.1", "read line <go; exit 3")
	if err := syscall.Mkfifo(filepath.Join(dir, "a/1.1/go"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Start(s)
	h.until("a.1.1", func(e Event) bool { return e.Kind == Started })
	forks.Lock() // its program is on a disk that hangs
	reapOrphans()
	ended := make(chan Event, 1)
	go func() { ended <- h.until("a.1.1", Event.Final) }()
	if err := os.WriteFile(filepath.Join(dir, "a/1.1/go"), []byte("on\n"), 0o600); err != nil {
		t.Error(err)
	}
	select {
	case end := <-ended:
		if end.Exit != 3 {
			t.Errorf("%+v", end)
		}
	case <-time.After(time.Minute):
		t.Error("its end is not seen")
	}
	forks.Unlock()
}

// Whatever a start fails of, nothing of it is left but its end, and that says why.
func TestAStartThatFailsLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	files := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(all)
	}
	before := files()
	for what, x := range map[string]struct {
		change func(*Spec)
		why    error
	}{
		"no program":         {func(s *Spec) { s.Path = filepath.Join(dir, "none") }, syscall.ENOENT},
		"no folder":          {func(s *Spec) { s.Home = filepath.Join(dir, "none") }, syscall.ENOENT},
		"a folder":           {func(s *Spec) { s.Path = dir }, syscall.EACCES},
		"no place to run in": {func(s *Spec) { s.Dir = filepath.Join(dir, "none") }, syscall.ENOENT},
		"too long":           {func(s *Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 1<<22)) }, syscall.E2BIG},
		"output in a folder": {func(s *Spec) { _ = os.Mkdir(filepath.Join(s.Home, "stderr"), 0o700) }, syscall.EISDIR},
	} {
		s := specIn(t, dir, strings.ReplaceAll(what, " ", "-")+".1.1", "true")
		x.change(&s)
		e.Start(s)
		end := h.until(s.Task, Event.Final)
		if end.Kind != Refused || end.Cause() != x.why || end.Err == "" {
			t.Errorf("%s: %+v", what, end)
		}
		e.Ack([]string{s.Task})
	}
	if n := files(); n > before {
		t.Errorf("%d files are open, there were %d", n, before)
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("recorded as running: %+v", left)
	}
}
