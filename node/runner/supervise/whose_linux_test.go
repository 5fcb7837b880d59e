package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A process that has lost its parents, changed its session, its environment and its limits is still
// below the supervisor.
func TestAProcessBelongsToTheTaskItWasStartedInHoweverItHides(t *testing.T) {
	dir, h := t.TempDir(), newHeard()
	c, err := Open(ClientConfig{Dir: dir, Sink: h.sink, Idle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(); _ = EndAll(dir) }()
	first, below, orphan := filepath.Join(dir, "first"), filepath.Join(dir, "below"), filepath.Join(dir, "orphan")
	note := func(file string) string { return "echo $$ > " + file + ".new; mv " + file + ".new " + file + "; " }
	script := filepath.Join(dir, "orphan.sh")
	if err := os.WriteFile(script, []byte("exec >/dev/null 2>&1; ulimit -S -R 1; "+note(orphan)+"sleep 1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Start(specIn(t, dir, "a.1.1", note(first)+"(setsid env -i PATH=/usr/bin:/bin bash "+script+" &); sh -c '"+note(below)+"sleep 1000' ; exit 0"))
	for file, want := range map[string]string{first: "a.1.1", below: "a.1.1", orphan: ""} {
		pid := whoIs(t, file)
		for task, _, _ := Whose(dir, pid); task != want; task, _, _ = Whose(dir, pid) {
			time.Sleep(time.Millisecond) // it may be faster than what the supervisor notes of it
		}
		if task, inside, err := Whose(dir, pid); task != want || !inside || err != nil {
			t.Errorf("%s: task %q, inside %v, %v", filepath.Base(file), task, inside, err)
		}
		if task, inside, err := Whose(t.TempDir(), pid); task != "" || inside || err != nil {
			t.Errorf("%s, asked by another peer: task %q, inside %v, %v", filepath.Base(file), task, inside, err)
		}
	}
	_ = syscall.Kill(whoIs(t, orphan), syscall.SIGKILL) // its sleep lives on, and it itself is reaped
	for stateOf(whoIsIn(t, orphan)) != 0 {
		time.Sleep(time.Millisecond)
	}
}

// whoIsIn reads the number of a process that may have ended.
func whoIsIn(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return number(string(b[:len(b)-1]))
}

func TestAProcessThatNoTaskStartedBelongsToNone(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if task, inside, err := Whose(dir, cmd.Process.Pid); task != "" || inside || err != nil {
		t.Errorf("task %q, inside %v, %v", task, inside, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, inside, err := Whose(dir, cmd.Process.Pid); !inside || err == nil {
		t.Errorf("one that has ended: inside %v, %v", inside, err)
	}
}
