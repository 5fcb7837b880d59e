package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// full is a file on a disk that takes nothing any more.
func full(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestAnEndThatDoesNotFitOnTheDiskIsKeptUntilItDoes(t *testing.T) {
	dir := t.TempDir()
	var said []string
	e, err := NewEngine(EngineConfig{Dir: dir, Warn: func(s string) { said = append(said, s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close("interrupted") })
	real := e.ends.f
	e.ends.f = full(t)
	h := newHeard()
	e.Attach(h.sink)
	e.Start(specIn(t, dir, "a.1.1", "exit 3"))
	h.until("a.1.1", Event.Final)
	e.Detach()
	for range 2 {
		if e.Idle() {
			t.Fatal("it may end, and nobody would know how the task did")
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "no space left") {
		t.Errorf("said %q", said)
	}
	e.mu.Lock()
	e.ends.f = real
	e.mu.Unlock()
	if !e.Idle() {
		t.Fatal("there is room again")
	}
	b, _ := os.ReadFile(filepath.Join(dir, endsName))
	if left, _ := parseEnds(b); len(left) != 1 || left[0].Exit != 3 {
		t.Errorf("on disk: %+v", left)
	}
}

func TestAnEndThatWasWrittenInPartDoesNotHideLaterOnes(t *testing.T) {
	dir := t.TempDir()
	f, _, err := openEnds(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if _, err := f.f.WriteAt([]byte("half of a rec"), 0); err != nil { // what a full disk took of it
		t.Fatal(err)
	}
	if err := f.add(Event{Kind: Ended, Task: "a.1.1", Exit: 3}); err != nil {
		t.Fatal(err)
	}
	if err := f.sync(); err != nil {
		t.Fatal(err)
	}
	if _, left, err := openEnds(dir); err != nil || len(left) != 1 || left[0].Exit != 3 {
		t.Errorf("%+v, %v", left, err)
	}
}

func TestWhatCannotBeNotedIsNotStarted(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	real := e.records.f
	e.records.f = full(t)
	e.Start(specIn(t, dir, "a.1.1", "touch ran"))
	if end := h.until("a.1.1", Event.Final); end.Kind != Refused || end.Cause() != syscall.ENOSPC {
		t.Errorf("%+v", end)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "1.1", "ran")); err == nil {
		t.Error("it ran: after a crash of the supervisor it would be run once more")
	}
	e.mu.Lock()
	e.records.f = real
	e.mu.Unlock()
	e.Ack([]string{"a.1.1"})
	e.Start(specIn(t, dir, "a.1.1", "exit 4"))
	if end := h.until("a.1.1", func(ev Event) bool { return ev.Kind == Ended }); end.Exit != 4 {
		t.Errorf("%+v", end)
	}
}
