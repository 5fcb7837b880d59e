package supervise

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// heard is a sink that can be waited on.
type heard struct {
	mu   sync.Mutex
	cond sync.Cond
	got  []Event
}

func newHeard() *heard {
	h := &heard{}
	h.cond.L = &h.mu
	return h
}

func (h *heard) sink(e Event) {
	h.mu.Lock()
	h.got = append(h.got, e)
	h.mu.Unlock()
	h.cond.Broadcast()
}

func (h *heard) until(task string, ok func(Event) bool) Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		for _, e := range h.got {
			if e.Task == task && ok(e) {
				return e
			}
		}
		h.cond.Wait()
	}
}

func engineIn(t *testing.T, dir string) *Engine {
	t.Helper()
	e, err := NewEngine(EngineConfig{Dir: dir, Grace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close("interrupted") })
	return e
}

func specIn(t *testing.T, dir, task, line string) Spec {
	t.Helper()
	home := filepath.Join(dir, strings.Replace(task, ".", "/", 1))
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	return Spec{Task: task, Home: home, Path: "/bin/sh", Dir: home, Argv: []string{"sh", "-c", line}, Env: []string{"PATH=/usr/bin:/bin", "COVEY_TASK=" + task}}
}

func TestWithoutPidfdsTheEndIsSeenAllTheSame(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := spawn(spec{path: "/bin/sh", argv: []string{"sh", "-c", "exit 7"}, dir: "/", stdin: null, stdout: logFile(null.Fd()), stderr: logFile(null.Fd())})
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(c.fd)
	c.fd = -1
	if e := c.wait(); e.exit != 7 || e.err != nil {
		t.Fatalf("%+v", e)
	}
	if c.signal(sigTerm) {
		t.Error("a reaped process was signalled")
	}
}

func TestAnEndNobodyHearsIsOnDiskUntilItIsAcknowledged(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	e.Start(specIn(t, dir, "a.1.1", "exit 3"))
	h.until("a.1.1", Event.Final)
	if b, _ := os.ReadFile(filepath.Join(dir, runningFile)); !strings.Contains(string(b), "a.1.1") {
		t.Error("its record is gone before it is acknowledged")
	}
	e.Detach()
	if err := e.Close("interrupted"); err != nil {
		t.Fatal(err)
	}
	e, h = engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	if end := h.until("a.1.1", Event.Final); end.Exit != 3 || end.Kind != Ended {
		t.Errorf("%+v", end)
	}
	e.Start(specIn(t, dir, "a.1.1", "touch again")) // not twice
	e.Ack([]string{"a.1.1", "b.1.1"})
	if err := e.Close("interrupted"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{runningFile, endsName} {
		if b, _ := os.ReadFile(filepath.Join(dir, name)); strings.TrimSpace(string(b)) != "" {
			t.Errorf("%s: %q", name, b)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "1.1", "again")); err == nil {
		t.Error("it was started again")
	}
}

func TestCloseStopsWhatRunsAndKeepsItsEnd(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	e.Start(specIn(t, dir, "a.1.1", "sleep 1000"))
	h.until("a.1.1", func(ev Event) bool { return ev.Kind == Started })
	if err := e.Close("interrupted"); err != nil {
		t.Fatal(err)
	}
	if end := h.until("a.1.1", Event.Final); end.Reason != "interrupted" {
		t.Errorf("%+v", end)
	}
	_, left, err := openEnds(dir)
	if err != nil || len(left) != 1 || left[0].Reason != "interrupted" {
		t.Errorf("on disk: %+v, %v", left, err)
	}
}

// stranger starts a process of its own group that is nobody's task unless env says so.
func stranger(t *testing.T, env ...string) (*exec.Cmd, func() bool) {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", "echo up; sleep 1000 & wait")
	c.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); _ = c.Wait() })
	return c, func() bool { s := stateOf(c.Process.Pid); return s == 0 || s == 'Z' }
}

func TestAnOrphanIsFoundByNumberStartAndBoot(t *testing.T) {
	before := sinceBoot()
	c, _ := stranger(t)
	good := record{task: "a.1.1", pid: c.Process.Pid, before: before, after: sinceBoot(), boot: BootID()}
	if _, ok := findOrphan(good); !ok {
		t.Fatal("not found")
	}
	for what, change := range map[string]func(*record){
		"another number":  func(r *record) { r.pid = 1 },
		"none":            func(r *record) { r.pid = 0 },
		"started before":  func(r *record) { r.before, r.after = r.after+1000, r.after+2000 },
		"started after":   func(r *record) { r.before, r.after = 0, 1000 },
		"another boot":    func(r *record) { r.boot = "another" },
		"no boot":         func(r *record) { r.boot = "" },
		"nobody's number": func(r *record) { r.pid = 1<<22 + 5 },
	} {
		r := good
		change(&r)
		if _, ok := findOrphan(r); ok {
			t.Errorf("%s: taken for a task", what)
		}
	}
}

func TestWhoCarriesATasksNameIsFoundByIt(t *testing.T) {
	name := "mine" + time.Now().Format("150405.000000000")
	mine, _ := stranger(t, "COVEY_TASK="+name)
	_, other := stranger(t, "COVEY_TASK="+name+"x", "X=COVEY_TASK="+name)
	KillByEnvironment(func(task string) bool { return task == name })
	gone(mine.Process.Pid)
	if other() {
		t.Error("another one was killed")
	}
}

func TestWhoIsStartedWhileOthersAreBeingKilledIsKilledToo(t *testing.T) {
	name := "mine" + time.Now().Format("150405.000000000")
	const generations = 5
	var dead []func() bool
	start := func() {
		_, d := stranger(t, "COVEY_TASK="+name)
		dead = append(dead, d)
	}
	start()
	KillByEnvironment(func(task string) bool {
		if task == name && len(dead) < generations {
			start() // after the list of processes was read
		}
		return task == name
	})
	for i, d := range dead {
		if !d() {
			t.Errorf("number %d still runs", i+1)
		}
	}
	if len(dead) != generations {
		t.Errorf("looked %d times", len(dead))
	}
}
