package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// grouped is an engine whose tasks are in control groups.
func grouped(t *testing.T, dir string) *Engine {
	t.Helper()
	g := sandbox.OpenGroups(dir)
	if g == nil {
		t.Skip("no control groups can be made here")
	}
	e, err := NewEngine(EngineConfig{Dir: dir, Grace: 50 * time.Millisecond, Groups: g})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.Close("interrupted")
		if again := sandbox.OpenGroups(dir); again != nil {
			again.Close()
		}
	})
	return e
}

func inGroup(s Spec) Spec {
	s.Box = &sandbox.Spec{Group: true}
	return s
}

// drifter is a hermit that gave up the limit it inherited, too: only its control group tells whose
// it is.
func drifter(t *testing.T, file string) (line string) {
	t.Helper()
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip(err)
	}
	return strings.Replace(hermit(t, file), "setsid", "prlimit --rttime=unlimited:unlimited setsid", 1)
}

func groupOf(pid int) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return ""
}

func TestWhatATaskStartedEndsWithItsControlGroupWhateverItGaveUp(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	e, h := grouped(t, dir), newHeard()
	e.Attach(h.sink)
	e.Start(inGroup(specIn(t, dir, "a.1.1", drifter(t, file)+"until [ -e "+file+".go ]; do sleep 0.01; done")))
	pid := whoIs(t, file)
	if g := groupOf(pid); !strings.Contains(g, "/covey-") {
		t.Fatalf("it is in the control group %q", g)
	}
	if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := h.until("a.1.1", Event.Final); end.Held&sandbox.ConfinedGroup == 0 {
		t.Errorf("%+v", end)
	}
	gone(pid)
	for _, task := range []string{"a.2.1", "a.3.1"} { // what follows is not taken for what was killed
		e.Start(inGroup(specIn(t, dir, task, "exit 3")))
		if end := h.until(task, Event.Final); end.Exit != 3 {
			t.Errorf("%+v", end)
		}
	}
}

func TestAControlGroupIsRemovedWhenItsSupervisorEnds(t *testing.T) {
	dir := t.TempDir()
	e, h := grouped(t, dir), newHeard()
	e.Attach(h.sink)
	e.Start(inGroup(specIn(t, dir, "a.1.1", "sleep 1000 & grep ^0:: /proc/self/cgroup")))
	h.until("a.1.1", Event.Final)
	b, err := os.ReadFile(filepath.Join(dir, "a", "1.1", "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(filepath.Dir(strings.TrimSpace(string(b))))
	if !strings.HasPrefix(name, "covey-") {
		t.Fatalf("it was in %q", b)
	}
	if err := e.Close("interrupted"); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, filepath.Dir(strings.TrimPrefix(strings.TrimSpace(string(b)), "0::")))); err == nil {
			t.Errorf("%s is there still", name)
		}
	}
}

func TestWhatAKilledSupervisorLeftInControlGroupsEndsWithTheTaskOrAtOnce(t *testing.T) {
	dir := t.TempDir()
	g := sandbox.OpenGroups(dir)
	if g == nil {
		t.Skip("no control groups can be made here")
	}
	in := func(k *sandbox.Group, line string) *exec.Cmd {
		c := exec.Command("/bin/sh", "-c", line)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		k.Start(c.SysProcAttr)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, sigKill) })
		return c
	}
	of, nobodys := g.Acquire(), g.Acquire()
	file := filepath.Join(t.TempDir(), "pid")
	spec := specIn(t, dir, "a.1.1", "")
	rec := record{task: "a.1.1", before: sinceBoot(), boot: BootID(), held: sandbox.ConfinedKnown | sandbox.ConfinedGroup, group: of.N}
	task, forgotten := in(of, "cd "+spec.Home+"; "+drifter(t, file)+"sleep 1000"), in(nobodys, "sleep 1000")
	go func() { _ = task.Wait() }()
	left := whoIs(t, file)
	rec.pid, rec.after = task.Process.Pid, sinceBoot()
	begun(t, dir, rec)
	e, h := grouped(t, dir), newHeard()
	e.Attach(h.sink)
	if err := forgotten.Wait(); err == nil {
		t.Error("what nobody knows of went on")
	}
	if stateOf(left) == 0 || stateOf(rec.pid) == 'Z' {
		t.Fatal("what is known of was ended")
	}
	e.Stop("a.1.1", "cancelled")
	h.until("a.1.1", Event.Final)
	gone(left)
}

func TestATaskThatMustBeInAControlGroupDoesNotStartOutsideOfOne(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	s := specIn(t, dir, "a.1.1", "touch ran")
	s.Box = &sandbox.Spec{Group: true, Only: true, Demands: true}
	e.Start(s)
	if end := h.until("a.1.1", Event.Final); end.Kind != Refused || end.Held != 0 {
		t.Errorf("%+v", end)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "1.1", "ran")); err == nil {
		t.Error("it ran")
	}
}
