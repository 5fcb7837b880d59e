package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

type givenSecrets map[string][]byte

func (g givenSecrets) Values(context.Context, taskstate.Launch) (map[string][]byte, error) {
	return g, nil
}

// strongly is an executor whose tasks see no others, and a way to run a line so.
func strongly(t *testing.T, change ...func(*Config)) (h *harness, run func(line string) (taskstate.TaskID, taskstate.RunReport)) {
	s := newSource()
	s.give("typed\n", errWhole)
	h, _ = boxed(t, append(change, func(c *Config) { c.Stdin, c.Secrets = s, givenSecrets{"PW": []byte("hunter2")} })...)
	if !h.boxes.holds.Apart || !h.boxes.holds.Files {
		t.Skip("processes cannot be kept from seeing others here: " + h.boxes.holds.WhySeen)
	}
	n := 0
	return h, func(line string) (taskstate.TaskID, taskstate.RunReport) {
		l := strong(line, n)
		n++
		h.Start(l)
		return l.Task, h.end(l.Task)
	}
}

func strong(line string, n int) taskstate.Launch {
	job := reads(line)
	job.ID = testJob + taskstate.JobID("s"+string(rune('a'+n)))
	job.Secrets = &taskstate.Secrets{}
	l := launch(job, 1)
	l.Confinement = &taskstate.Confinement{As: as(), Isolate: taskstate.IsolateStrong, Net: taskstate.NetNone}
	return l
}

func TestAStronglyIsolatedTaskSeesItselfOnly(t *testing.T) { strongTask(t) }

func TestAStronglyIsolatedTaskOfAnotherUsersPeerSeesItselfOnly(t *testing.T) {
	if asSomebody(t) {
		strongTask(t)
	}
}

func strongTask(t *testing.T) {
	h, run := strongly(t)
	run("true") // its supervisor is there
	for line, want := range map[string]string{
		"set -- /proc/[0-9]*; echo $#; [ -d /proc/$$ ] && echo $PPID":                                                          "2 0",
		fmt.Sprintf("kill -0 %d 2>/dev/null || echo no; kill -0 %d 2>/dev/null || echo no", os.Getpid(), h.supervisor()):       "no no",
		"cat /proc/1/environ /proc/1/mem 2>/dev/null; readlink /proc/1/exe /proc/1/fd/0; ls /proc/1/root/ 2>/dev/null; echo x": "x",
		"kill -TERM 1; kill -KILL 1; kill -CHLD 1; echo alive":                                                                 "alive",
		"wc -l </proc/net/dev; bash -c 'exec 3<>/dev/tcp/127.0.0.1/22' 2>/dev/null || echo alone":                              "3 alone",
		"cat; cat $COVEY_SECRETS/PW":                               "typed hunter2",
		"echo made >made; cat made; mktemp >/dev/null && echo tmp": "made tmp",
		// The two are gone from /proc once they are reaped.
		"(sleep 0.01 &); (sleep 0.01 &); for n in $(seq 6000); do set -- /proc/[0-9]*; [ $# = 2 ] && echo reaped && break; sleep 0.01; done": "reaped",
	} {
		task, end := run(line)
		if got := strings.Join(strings.Fields(h.said(task, "stdout")), " "); end.State != taskstate.Complete || got != want {
			t.Errorf("%s: %v %s: %q, expected %q\n%s", line, end.State, end.Message, got, want, h.said(task, "stderr"))
		}
	}
	if _, end := run("exit 7"); end.Exit != 7 {
		t.Errorf("exit 7: %+v", end)
	}
	if _, end := run("kill -SEGV $$"); end.Signal != 11 {
		t.Errorf("a signal: %+v", end)
	}
}

func TestWhatAStronglyIsolatedTaskLeavesBehindHasEndedWhenItsEndIsSaid(t *testing.T) {
	h, run := strongly(t)
	mark := fmt.Sprint("9", os.Getpid(), ".5")
	if task, end := run("env -i setsid sleep " + mark + " >/dev/null 2>&1 </dev/null & sleep 0.05"); end.State != taskstate.Complete {
		t.Fatalf("%+v %s", end, h.said(task, "stderr"))
	}
	if all := running("sleep\x00" + mark); len(all) > 0 {
		t.Errorf("it runs on as %v", all)
	}
	pid := h.supervisor()
	if left, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err != nil || len(left) > 0 {
		t.Errorf("the supervisor still has %s, %v", left, err)
	}
}

// running are the processes whose command has this in it.
func running(what string) (all []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range lines {
		if b, _ := os.ReadFile(p); strings.Contains(string(b), what) {
			all = append(all, p)
		}
	}
	return all
}

func TestAStronglyIsolatedTaskIsAskedToEndAndKilledAfterItsGrace(t *testing.T) {
	for n, c := range []struct {
		line  string
		grace time.Duration
		ends  func(taskstate.RunReport) bool
		says  string
	}{
		{"trap 'echo asked; exit 3' TERM; echo up >up; while :; do sleep 0.01; done", time.Minute, func(r taskstate.RunReport) bool { return r.Exit == 3 }, "asked\n"},
		{"trap '' TERM; echo up >up; while :; do sleep 0.01; done", 200 * time.Millisecond, func(r taskstate.RunReport) bool { return r.Signal == 9 }, ""},
	} {
		h, _ := strongly(t, func(cfg *Config) { cfg.Grace = c.grace })
		l := strong(c.line, n)
		h.Start(l)
		eventually(t, "it has begun", func() bool { _, err := os.Stat(h.path(l.Task, "work/up")); return err == nil })
		h.Stop(l.Task, taskstate.ReasonCancelled)
		if end := h.end(l.Task); end.State != taskstate.Shutdown || !c.ends(end) || h.said(l.Task, "stdout") != c.says {
			t.Errorf("%s: %+v, it said %q", c.line, end, h.said(l.Task, "stdout"))
		}
	}
}

func TestAStronglyIsolatedTaskOutlivesItsSupervisorAndEndsWithAllOfIt(t *testing.T) {
	h, _ := strongly(t)
	mark := fmt.Sprint("8", os.Getpid(), ".5")
	l := strong("setsid sleep "+mark+" >/dev/null 2>&1 </dev/null & while [ ! -e go ]; do sleep 0.01; done; echo done", 0)
	h.Start(l)
	h.running(l.Task) // which is noted on disk
	eventually(t, "it has begun", func() bool { return len(running(mark)) > 0 })
	killSupervisor(t, h.dir)
	h.Start(strong("true", 1)) // another one is needed
	h.end(strong("true", 1).Task)
	if len(running(mark)) == 0 {
		t.Fatal("it ended with its supervisor")
	}
	if err := os.WriteFile(h.path(l.Task, "work/go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if end := h.end(l.Task); h.said(l.Task, "stdout") != "done\n" {
		t.Errorf("%+v, it said %q", end, h.said(l.Task, "stdout"))
	}
	eventually(t, "all of it has ended", func() bool { return len(running(mark)) == 0 })
}
