package supervise

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// begun writes .running as a supervisor that was killed left it.
func begun(t *testing.T, dir string, recs ...record) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, runningFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if err := r.put(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
}

// orphaned starts a process as a task of a supervisor that was killed, with its folder and its
// record.
func orphaned(t *testing.T, dir, task, line string) record {
	t.Helper()
	s := specIn(t, dir, task, line)
	rec := record{task: task, before: sinceBoot(), boot: BootID()}
	c := exec.Command(s.Path, s.Argv[1:]...)
	c.Env, c.Dir = s.Env, s.Dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	rec.pid, rec.after = c.Process.Pid, sinceBoot()
	t.Cleanup(func() { _ = syscall.Kill(-rec.pid, sigKill); _ = c.Wait() })
	return rec
}

func TestATimeLimitThatPassedWhileNobodyWatchedIsKeptAtOnce(t *testing.T) {
	dir, h := t.TempDir(), newHeard()
	var recs []record
	for slot := range 8 {
		rec := orphaned(t, dir, fmt.Sprintf("a.%d.1", slot+1), "trap '' HUP; while :; do sleep 0.01; done")
		rec.slot, rec.deadline = slot, max(1, sinceBoot()-1000)
		recs = append(recs, rec)
	}
	begun(t, dir, recs...)
	e := engineIn(t, dir)
	e.Attach(h.sink)
	for _, rec := range recs {
		if end := h.until(rec.task, Event.Final); end.Kind != Ended || !end.Timeout || !end.Unseen || end.Reason != "" || end.Cause().Error() != errUnseen.Error() {
			t.Errorf("%+v", end)
		}
	}
}

func TestAnOrphansEndFreesItsRecordAndEndsWhatItsLeaderLeft(t *testing.T) {
	dir, h := t.TempDir(), newHeard()
	fifo := filepath.Join(dir, "held")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	rec := orphaned(t, dir, "a.1.1", "sleep 1000 3>"+fifo+" & exec 4>"+fifo+"; while ! [ -e go ]; do sleep 0.01; done")
	rec.held = sandbox.ConfinedKnown | sandbox.ConfinedNet
	begun(t, dir, rec)
	held, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	e := engineIn(t, dir)
	e.Attach(h.sink)
	if ev := h.until("a.1.1", func(Event) bool { return true }); ev.Kind != Started || ev.Held != rec.held {
		t.Fatalf("%+v", ev)
	}
	e.Start(specIn(t, dir, "a.1.1", "touch twice")) // it is here
	if err := os.WriteFile(filepath.Join(dir, "a", "1.1", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := h.until("a.1.1", Event.Final); end.Kind != Ended || !end.Unseen || end.Timeout || end.Held != rec.held {
		t.Errorf("%+v", end)
	}
	if _, err := io.ReadAll(held); err != nil { // would last for ever if what it left behind did
		t.Fatal(err)
	}
	e.Ack([]string{"a.1.1"})
	if b, _ := os.ReadFile(filepath.Join(dir, runningFile)); strings.TrimSpace(string(b)) != "" {
		t.Errorf("its record is there: %q", b)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "1.1", "twice")); err == nil {
		t.Error("it was started again")
	}
}

// The file of ends is the better witness: the record may have outlived the process.
func TestAnEndThatWasKeptIsToldInsteadOfALoss(t *testing.T) {
	dir := t.TempDir()
	boot := BootID()
	begun(
		t, dir, record{task: "a.1.1", pid: 1 << 22, before: 1, after: 2, boot: boot}, record{task: "a.2.1", boot: boot, slot: 1},
		record{task: "a.3.1", pid: 1 << 22, before: 1, after: 2, boot: "another", slot: 2},
	)
	ends, _, err := openEnds(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range []Event{{Kind: Ended, Task: "a.1.1", Exit: 3}, {Kind: Refused, Task: "b.1.1", Errno: int(syscall.ENOENT)}} {
		if err := ends.add(ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := ends.sync(); err != nil {
		t.Fatal(err)
	}
	ends.close()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	for _, want := range []Event{
		{Kind: Ended, Task: "a.1.1", Exit: 3},
		{Kind: Refused, Task: "b.1.1", Errno: int(syscall.ENOENT)},
		{Kind: Lost, Task: "a.2.1", Unseen: true},
		{Kind: Lost, Task: "a.3.1", Unseen: true, Rebooted: true},
	} {
		got := h.until(want.Task, func(Event) bool { return true })
		if got.At = 0; got != want {
			t.Errorf("told %+v instead of %+v", got, want)
		}
	}
	if len(h.got) != 5 {
		t.Errorf("told %+v", h.got)
	}
	e.Ack([]string{"a.1.1", "b.1.1"})
	if left := leftIn(t, dir); len(left) != 2 || left[0].task != "a.2.1" || left[1].task != "a.3.1" {
		t.Errorf("recorded: %+v", left)
	}
}

func leftIn(t *testing.T, dir string) []record {
	t.Helper()
	r, err := openRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	return r.left
}

// A process's name is in the middle of what the system says of it, and may be anything.
func TestAProcessIsKnownWhateverItsNameIs(t *testing.T) {
	program, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "a) Z 1 (b")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	before := sinceBoot()
	c := exec.Command(path, "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	after := sinceBoot()
	if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.Process.Pid)); string(b) != "a) Z 1 (b\n" {
		t.Skipf("its name is %q", b)
	}
	if at, ok := startedAt(c.Process.Pid); !ok || at < before-20 || at > after+20 {
		t.Errorf("started at %d (%v), not between %d and %d", at, ok, before, after)
	}
	if s := stateOf(c.Process.Pid); s != 'S' && s != 'R' && s != 'D' {
		t.Errorf("its state is %c", s)
	}
	_ = c.Process.Kill()
	gone(c.Process.Pid)
	_ = c.Wait()
	if at, ok := startedAt(c.Process.Pid); ok {
		t.Errorf("it is gone, and started at %d", at)
	}
}
