package supervise

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// hermit is a line that leaves a process behind which nothing ties to its task any more: a pid, a
// parent, a folder and an environment of its own. It writes its number to a file; with SIGTERM it
// writes there that it heard.
func hermit(t *testing.T, file string) (line string) {
	t.Helper()
	text := "cd /; exec >/dev/null 2>&1; trap 'echo heard >> " + file + "; exit' TERM\n" +
		"echo $$ > " + file + ".new; mv " + file + ".new " + file + "; while :; do sleep 0.05; done\n"
	if err := os.WriteFile(file+".sh", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "(setsid env -i PATH=/usr/bin:/bin /bin/sh " + file + ".sh &); until [ -s " + file + " ]; do sleep 0.01; done; "
}

// whoIs reads the number of a hermit.
func whoIs(t *testing.T, file string) (pid int) {
	t.Helper()
	awaitFile(t, file)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(strings.Fields(string(b))[0]); err != nil || stateOf(pid) == 0 {
		t.Fatalf("%q, %v", b, err)
	}
	return pid
}

// seen is a line that waits until see was called.
func seen(file string) string { return "until [ -e " + file + ".seen ]; do sleep 0.01; done; " }

func see(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file+".seen", nil, 0o644); err != nil { //nolint:gosec // another user's task looks for it
		t.Fatal(err)
	}
}

func awaitFile(t *testing.T, file string) {
	t.Helper()
	for _, err := os.Stat(file); err != nil; _, err = os.Stat(file) {
		runtime.Gosched()
	}
}

// gone waits until a process has ended.
func gone(pid int) {
	for !awaitDeath(pid) {
		continue
	}
}

func TestWhatATaskLeavesBehindEndsWithItHoweverItHides(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	file := filepath.Join(dir, "hermit")
	e.Start(specIn(t, dir, "a.1.1", hermit(t, file)+seen(file)+"exit 3"))
	e.Start(specIn(t, dir, "a.2.1", hermit(t, file+"2")+"exec sleep 1000"))
	pid, other := whoIs(t, file), whoIs(t, file+"2")
	see(t, file)
	if end := h.until("a.1.1", Event.Final); end.Exit != 3 {
		t.Errorf("%+v", end)
	}
	gone(pid)
	if syscall.Kill(other, 0) != nil {
		t.Error("that of another task was ended, too")
	}
	e.Stop("a.2.1", "cancelled")
	gone(other)
}

// A root without CAP_SYS_RESOURCE may not ask for the limits of another user's processes.
func TestWhatATaskOfAUserOfItsOwnLeavesBehindEndsWithIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const somebody = 1234
	dir, err := os.MkdirTemp("/var/tmp", "covey-test-") // below folders that everybody may pass
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	file := filepath.Join(dir, "open", "hermit")
	for _, folder := range []string{dir, filepath.Dir(file)} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s := specIn(t, dir, "a.1.1", hermit(t, file)+seen(file)+"exit 3")
	if err := os.Chmod(file+".sh", 0o644); err != nil {
		t.Fatal(err)
	}
	s.Dir, s.Box = filepath.Dir(file), &sandbox.Spec{User: &sandbox.User{UID: somebody, GID: somebody}}
	e.Start(s)
	pid := whoIs(t, file)
	see(t, file)
	if end := h.until("a.1.1", Event.Final); end.Exit != 3 {
		t.Errorf("%+v", end)
	}
	gone(pid)
}

func TestTheLimitThatEverybodyMayReadIsTheOneThatIsAskedFor(t *testing.T) {
	if err := withTag("a.1.1", func() error {
		if cur, ok := new(glance).limitRead(os.Getpid()); !ok || cur != tagOf("a.1.1") {
			t.Errorf("%d, %v; want %d", cur, ok, tagOf("a.1.1"))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestACancelIsHeardByWhatATaskHasOutsideOfItsGroup(t *testing.T) {
	dir := t.TempDir()
	e, err := NewEngine(EngineConfig{Dir: dir, Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close("interrupted") })
	h := newHeard()
	e.Attach(h.sink)
	file := filepath.Join(dir, "hermit")
	// It ends when what it left has ended.
	e.Start(specIn(t, dir, "a.1.1", hermit(t, file)+"trap '' TERM; touch "+file+".deaf; "+`until grep -q heard `+file+`; do sleep 0.01; done; exit 4`))
	pid := whoIs(t, file)
	awaitFile(t, file+".deaf")
	e.Stop("a.1.1", "cancelled")
	if end := h.until("a.1.1", Event.Final); end.Exit != 4 || end.Reason != "cancelled" {
		t.Errorf("%+v", end)
	}
	gone(pid)
}

func TestWhatIsLeftOfATaskIsFoundByTheNextSupervisor(t *testing.T) {
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	e.sweeper.kill = func(map[string]bool) int { return 0 } // as if it had been killed before
	file := filepath.Join(dir, "hermit")
	e.Start(specIn(t, dir, "a.1.1", hermit(t, file)))
	pid := whoIs(t, file)
	h.until("a.1.1", Event.Final)
	if KillTasks(map[string]bool{"b.1.1": true}) != 0 || syscall.Kill(pid, 0) != nil {
		t.Fatal("taken for another task's")
	}
	if KillTasks(map[string]bool{"a.1.1": true}) == 0 {
		t.Error("not found")
	}
	gone(pid)
}

func TestAForkLeavesNoTagOnWhoForks(t *testing.T) {
	if !canTag() {
		t.Skip("the limit cannot be raised here")
	}
	before, _ := limitOf(0, nil)
	if err := withTag("a.1.1", func() error {
		if l, _ := limitOf(0, nil); l.cur != tagOf("a.1.1") {
			t.Errorf("a child would get %d", l.cur)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if after, _ := limitOf(0, nil); after != before {
		t.Errorf("%+v, it was %+v", after, before)
	}
}
