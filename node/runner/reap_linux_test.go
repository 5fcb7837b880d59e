package runner

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"covey/taskstate"
)

// orphan starts a process of its own group that says when it is up and then only waits; what comes back ends when it is dead.
func orphan(t *testing.T, env ...string) (*exec.Cmd, func() bool) {
	t.Helper()
	c := exec.Command("/bin/sh", "-c", "echo up; sleep 1000 & wait")
	c.Env = env
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

// earlierLife writes the records of a runner that was killed.
func earlierLife(t *testing.T, dir string, f func(r *records)) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := openRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	f(r)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
}

func TestReapKillsTheGroupAnEarlierLifeStarted(t *testing.T) {
	h := start(t, nil)
	dir := filepath.Join(t.TempDir(), "tasks")
	before := sinceBoot()
	c, dead := orphan(t)
	id := taskstate.Task(testJob, 1, 1)
	earlierLife(t, dir, func(r *records) {
		r.add(taskstate.Task(testJob, 9, 9), 1<<22+5, before)
		r.add(id, c.Process.Pid, before)
	})
	h2 := start(t, func(c *Config) { c.Dir = dir })
	h.Reap([]taskstate.TaskID{id}) // has no record of it, and the environment says nothing
	h2.Reap([]taskstate.TaskID{taskstate.Task(testJob, 2, 1)})
	if dead() {
		t.Fatal("killed without being asked for")
	}
	h2.Reap([]taskstate.TaskID{id})
	if !dead() {
		t.Fatal("still runs")
	}
	if got, _ := os.ReadFile(filepath.Join(dir, ".running")); strings.Contains(string(got), id.String()) {
		t.Errorf("its record is still there: %q", got)
	}
}

func TestAProcessThatGotTheNumberLaterIsNotKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tasks")
	c, dead := orphan(t)
	id := taskstate.Task(testJob, 1, 1)
	earlierLife(t, dir, func(r *records) {
		slot := r.add(id, c.Process.Pid, 0)
		for i, line := range []string{
			fmt.Sprintf("%d %d %d %s %s", c.Process.Pid, 0, 1000, r.boot, id),                          // somebody else had the number before
			fmt.Sprintf("%d %d %d %s %s", c.Process.Pid, 0, sinceBoot(), "another-boot", id),           // before the machine was started again
			fmt.Sprintf("%d %d %d %s %s", 1, 0, sinceBoot(), r.boot, id),                               // never a group
			fmt.Sprintf("%d %d %d %s %s", -c.Process.Pid, 0, sinceBoot(), r.boot, id),                  // nonsense
			fmt.Sprintf("%d %d %d %s %s", c.Process.Pid, sinceBoot()+500, sinceBoot()+999, r.boot, id), // later than it
		} {
			if err := r.put(slot+i, line); err != nil {
				t.Fatal(err)
			}
		}
	})
	start(t, func(c *Config) { c.Dir = dir }).Reap([]taskstate.TaskID{id})
	if dead() {
		t.Fatal("an innocent was killed")
	}
}

func TestReapFindsByEnvironmentWhoLeftTheGroup(t *testing.T) {
	id := taskstate.Task(taskstate.NewJobID(), 1, 1)
	_, dead := orphan(t, "COVEY_TASK="+id.String())
	_, other := orphan(t, "COVEY_TASK="+taskstate.Task(id.Job, 1, 2).String(), "X=COVEY_TASK="+id.String())
	start(t, nil).Reap([]taskstate.TaskID{id})
	if !dead() {
		t.Error("still runs")
	}
	if other() {
		t.Error("another attempt was killed")
	}
}

func TestARecordIsThereWhileTheProcessRunsAndGoneAfter(t *testing.T) {
	h := start(t, nil)
	l := launch(shell("sleep 1000"), 1)
	h.Start(l)
	h.running(l.Task)
	read := func() string { b, _ := os.ReadFile(filepath.Join(h.dir, ".running")); return string(b) }
	if !strings.Contains(read(), l.Task.String()) {
		t.Errorf("no record: %q", read())
	}
	h.Stop(l.Task, taskstate.ReasonCancelled)
	h.end(l.Task)
	if strings.TrimSpace(read()) != "" {
		t.Errorf("still recorded: %q", read())
	}
}

func FuzzARecordFromDiskNeverPanics(f *testing.F) {
	f.Add("123 4 5 boot k3v5q7x2ab.1.1   \n")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		if r, ok := parseRecord(line); ok && r.pid <= 1 {
			t.Fatalf("%+v", r)
		}
	})
}

func TestWithoutPidfdsTheEndIsSeenAllTheSame(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := spawn(spec{path: "/bin/sh", argv: []string{"sh", "-c", "exit 7"}, dir: "/", stdin: null, stdout: null, stderr: null})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.fd.Close()
	c.fd = nil
	if e := c.wait(); e.exit != 7 || e.err != nil {
		t.Fatalf("%+v", e)
	}
	if c.signal(sigTerm) {
		t.Error("a reaped process was signalled")
	}
}

func TestWhoLeavesTheGroupButHoldsTheOutputEndsWithTheTask(t *testing.T) {
	h := start(t, nil)
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid here")
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l := launch(shell("setsid sh -c 'exec 3>%s; while :; do echo more; sleep 0.01; done' & sleep 0.3", fifo), 1)
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
	if !unwritten(filepath.Join(h.dir, rel, "stdout")) {
		t.Error("somebody still writes")
	}
}

func TestAnEmptyWorkFolderServesTheNextTaskAndAUsedOneDoesNot(t *testing.T) {
	h := start(t, nil)
	work := func(slot int) string {
		rel, _ := taskstate.Task(testJob, slot, 1).Folder()
		return filepath.Join(h.dir, rel, "work")
	}
	run := func(slot int, line string) {
		l := launch(shell("%s", line), slot)
		h.Start(l)
		if end := h.end(l.Task); end.State != taskstate.Complete {
			t.Fatalf("%+v", end)
		}
		if err := h.Close(); err != nil { // after it, the folder has been offered
			t.Fatal(err)
		}
	}
	for slot, line := range []string{"touch kept", "mkdir .hidden", "chmod 0755 .", "rmdir $PWD; ln -s / $PWD"} {
		h = start(t, func(c *Config) { c.Dir = h.dir })
		run(slot+1, line)
		if len(h.spare.paths) != 0 {
			t.Errorf("%q left a folder that was offered", line)
		}
	}
	h = start(t, func(c *Config) { c.Dir = h.dir })
	run(5, "true")
	if len(h.spare.paths) != 1 || !h.spare.take(work(4)+"x") {
		t.Errorf("an empty folder was not offered: %v", h.spare.paths)
	}
	h.spare.offer(work(4) + "x")
	if h.spare.take(work(4) + "x") {
		t.Error("a folder was taken for itself")
	}
}
