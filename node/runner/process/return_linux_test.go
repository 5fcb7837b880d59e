package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// Environment of a process that is an earlier life of a peer: its tasks folder, and the job it
// runs.
const (
	lifeDir  = "COVEY_TEST_LIFE"
	lifeLine = "COVEY_TEST_LINE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(lifeDir); dir != "" {
		liveOn(dir, os.Getenv(lifeLine))
	}
	os.Exit(long.InMemory(m))
}

// liveOn is a peer reduced to what runs its processes: it starts three slots of a job, says what is
// reported, journals nothing, and never ends by itself.
func liveOn(dir, line string) {
	report, _ := queued(func(rep taskstate.RunReport) { fmt.Println(rep.Task.Slot, rep.State) })
	r, err := New(Config{Dir: dir, Environ: os.Environ(), Report: report})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	r.Adopt(nil)
	for slot := 1; slot <= 3; slot++ {
		r.Start(launch(lifeJob(line), slot))
	}
	select {}
}

func lifeJob(line string) *taskstate.Job {
	j := shell("%s", line)
	j.Timeout = 60_000
	return j
}

// life is such a process.
type life struct {
	t   *testing.T
	cmd *exec.Cmd
	dir string // tasks folder
	at  string // folder for flags: $0's
	job *taskstate.Job
	out *bufio.Scanner
}

func bear(t *testing.T, line string) *life {
	t.Helper()
	l := &life{t: t, dir: filepath.Join(t.TempDir(), "tasks"), at: t.TempDir()}
	line = strings.ReplaceAll(line, "FLAG", filepath.Join(l.at, "flag"))
	l.job = lifeJob(line)
	l.cmd = exec.Command("/proc/self/exe")
	l.cmd.Env = append(os.Environ(), lifeDir+"="+l.dir, lifeLine+"="+line)
	l.cmd.Stderr = os.Stderr
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.out = bufio.NewScanner(out)
	t.Cleanup(func() { l.kill(); _ = supervise.EndAll(l.dir) })
	return l
}

// said waits until the process has reported all of these.
func (l *life) said(want ...string) {
	l.t.Helper()
	missing := map[string]bool{}
	for _, w := range want {
		missing[w] = true
	}
	for len(missing) > 0 && l.out.Scan() {
		delete(missing, l.out.Text())
	}
	if len(missing) > 0 {
		l.t.Fatalf("it ended and has not said %v", missing)
	}
}

// kill is kill -9.
func (l *life) kill() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

// supervisor finds the process number of the supervisor of the folder, 0 if there is none.
func supervisorOf(dir string) int {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range lines {
		b, _ := os.ReadFile(p)
		if strings.HasSuffix(string(b), "\x00supervise\x00"+dir+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			return pid
		}
	}
	return 0
}

func killSupervisor(t *testing.T, dir string) { signalSupervisor(t, dir, syscall.SIGKILL) }

func signalSupervisor(t *testing.T, dir string, sig syscall.Signal) {
	t.Helper()
	pid := supervisorOf(dir)
	if pid == 0 {
		t.Fatal("there is no supervisor")
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Signal(sig)
	eventually(t, "the supervisor is gone", func() bool { return supervisorOf(dir) != pid })
}

// eventually polls: what it waits for happens in another process.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// opened tells whether a process has a file open. A supervisor opens a task's output once it has
// found the task's process.
func opened(pid int, file string) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if at, err := os.Readlink(fd); err == nil && at == file {
			return true
		}
	}
	return false
}

// nobodyCarries waits until no process of these slots runs any more. It only looks: what was killed
// may take a moment to go on a busy machine, what was not killed goes on until the test has failed.
func nobodyCarries(t *testing.T, slots ...int) {
	t.Helper()
	for _, slot := range slots {
		eventually(t, "no process of slot "+strconv.Itoa(slot)+" runs", func() bool { return len(carriers(slot)) == 0 })
	}
}

// carriers are the folders below /proc of the processes of a slot. One that is about to end may be
// missing: it has given its environment up.
func carriers(slot int) []string {
	name := []byte("COVEY_TASK=" + slotID(slot).String() + "\x00")
	all, _ := filepath.Glob("/proc/[0-9]*")
	return slices.DeleteFunc(all, func(p string) bool {
		env, _ := os.ReadFile(filepath.Join(p, "environ"))
		return !bytes.Contains(env, name)
	})
}

// ended tells whether a process has ended; whether somebody took note does not matter.
func ended(proc string) bool {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return err != nil || len(after) == 0 || after[0] == 'Z' || after[0] == 'X'
}

// remove removes the folder, beside a supervisor that may just be making a file in it.
func (l *life) remove() {
	l.t.Helper()
	eventually(l.t, "its folder is removed", func() bool { return os.RemoveAll(l.dir) == nil })
}

func (l *life) flag(name string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.at, "flag"+name), nil, 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) holds(slot int, text string) {
	l.t.Helper()
	eventually(l.t, "stdout holds "+text, func() bool {
		b, _ := os.ReadFile(filepath.Join(l.dir, string(testJob), fmt.Sprint(slot, ".1"), "stdout"))
		return strings.Contains(string(b), text)
	})
}

func (l *life) launches(slots ...int) (all []taskstate.Launch) {
	for _, s := range slots {
		all = append(all, launch(l.job, s))
	}
	return all
}

func (l *life) next() *harness {
	return start(l.t, func(c *Config) { c.Dir = l.dir })
}

func slotID(slot int) taskstate.TaskID { return taskstate.Task(testJob, slot, 1) }

// Each slot waits for its flag and then exits with ten times its number.
const waits = `echo before; while ! [ -e FLAG$COVEY_SLOT ]; do sleep 0.02; done; echo after; exit ${COVEY_SLOT}0`

func TestTasksOfAKilledPeerGoOnAndTheirExitCodesAreKnown(t *testing.T) {
	l := bear(t, waits)
	l.said("1 running", "2 running", "3 running")
	l.kill()
	l.flag("1")
	l.holds(1, "after")
	h := l.next()
	if lost := h.Adopt(l.launches(1, 2, 4)); len(lost) != 1 || lost[0].Task != slotID(4) || !lost[0].Never {
		t.Fatalf("lost %+v: 4 was never started, the others are there", lost)
	}
	if end := h.end(slotID(1)); end.State != taskstate.Failed || end.Exit != 10 || end.Reason != taskstate.ReasonExit {
		t.Errorf("what ended meanwhile: %+v", end)
	}
	over, _, live := h.Live(slotID(2))
	if !live {
		t.Fatal("what runs is not live")
	}
	l.flag("2")
	if end := h.end(slotID(2)); end.Exit != 20 || end.Reason != taskstate.ReasonExit {
		t.Errorf("what ended after: %+v", end)
	}
	<-over
	if got := h.file(slotID(2), "stdout"); got != "before\nafter\n" {
		t.Errorf("its output: %q", got)
	}
	if got := h.states(slotID(2)); len(got) != 2 || got[0] != taskstate.Running {
		t.Errorf("states %v", got)
	}
	// 3 was not asked for: it is nobody's and was stopped.
	eventually(t, "3 is stopped", func() bool {
		b, _ := os.ReadFile(filepath.Join(l.dir, ".running"))
		return strings.TrimSpace(string(b)) == ""
	})
}

func TestAnEndIsToldAgainUntilItIsKept(t *testing.T) {
	l := bear(t, waits)
	l.flag("1")
	l.flag("2")
	l.said("1 failed", "2 failed", "3 running")
	l.kill() // nothing was journaled
	h := l.next()
	h.keep = true
	if lost := h.Adopt(l.launches(1, 2, 3)); len(lost) != 0 {
		t.Fatalf("lost %+v", lost)
	}
	h.end(slotID(1))
	h.end(slotID(2))
	h.Kept([]taskstate.TaskID{slotID(1)})
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = l.next()
	lost := h.Adopt(l.launches(1, 2, 3))
	if len(lost) != 1 || lost[0].Task != slotID(1) {
		t.Fatalf("lost %+v, want only what was kept", lost)
	}
	if end := h.end(slotID(2)); end.Exit != 20 {
		t.Errorf("%+v", end)
	}
}

func TestWhenTheSupervisorIsKilledWithItsPeerTasksGoOnWithoutAnExitCode(t *testing.T) {
	l := bear(t, waits)
	l.said("1 running", "2 running", "3 running")
	l.kill()
	killSupervisor(t, l.dir)
	all := carriers(1)
	if len(all) == 0 {
		t.Fatal("no process of 1 is seen")
	}
	l.flag("1")
	l.holds(1, "after")
	eventually(t, "1 is gone", func() bool { return !slices.ContainsFunc(all, func(p string) bool { return !ended(p) }) })
	h := l.next()
	if lost := h.Adopt(l.launches(1, 2, 3)); len(lost) != 0 {
		t.Fatalf("lost %+v", lost)
	}
	if end := h.end(slotID(1)); end.State != taskstate.Orphaned || end.Exit != taskstate.NoExit || end.Reason != taskstate.ReasonInterrupted {
		t.Errorf("what ended unseen: %+v", end)
	}
	l.flag("2")
	if end := h.end(slotID(2)); end.State != taskstate.Orphaned || end.Reason != taskstate.ReasonInterrupted || end.Exit != taskstate.NoExit || !strings.Contains(end.Message, "exit code is unknown") {
		t.Errorf("what was taken up: %+v", end)
	}
	h.Stop(slotID(3), taskstate.ReasonCancelled)
	if end := h.end(slotID(3)); end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonCancelled {
		t.Errorf("what was stopped: %+v", end)
	}
	if got := h.file(slotID(2), "stdout"); got != "before\nafter\n" {
		t.Errorf("its output: %q", got)
	}
}

func TestWhenOnlyTheSupervisorIsKilledANewOneTakesOver(t *testing.T) {
	h := start(t, nil)
	h.Adopt(nil)
	flag := filepath.Join(t.TempDir(), "flag")
	l := launch(shell("while ! [ -e %s ]; do sleep 0.02; done; echo on; exit 3", flag), 1)
	h.Start(l)
	h.running(l.Task)
	killSupervisor(t, h.dir)
	eventually(t, "a new supervisor has taken the task up", func() bool { return opened(supervisorOf(h.dir), h.path(l.Task, "stdout")) })
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := h.end(l.Task); end.State != taskstate.Orphaned || end.Reason != taskstate.ReasonInterrupted || end.Exit != taskstate.NoExit {
		t.Errorf("%+v", end)
	}
	again := launch(shell("exit 4"), 2)
	h.Start(again)
	if end := h.end(again.Task); end.Exit != 4 {
		t.Errorf("%+v", end)
	}
}

// A machine that is shut down asks all processes to end: what the supervisor stops then was not
// cancelled by anybody.
func TestWhatASupervisorStopsThatIsAskedToEndIsInterrupted(t *testing.T) {
	h := start(t, nil)
	h.Adopt(nil)
	for slot, line := range []string{"sleep 1000", "trap 'exit 0' TERM; while :; do sleep 0.01; done"} {
		l := launch(shell("%s", line), slot+1)
		h.Start(l)
		h.running(l.Task)
	}
	signalSupervisor(t, h.dir, syscall.SIGTERM)
	for slot := range 2 {
		if end := h.end(slotID(slot + 1)); end.State != taskstate.Orphaned || end.Reason != taskstate.ReasonInterrupted || end.Exit != taskstate.NoExit {
			t.Errorf("%+v", end)
		}
	}
}

func TestATimeoutIsKeptWhileThePeerIsAway(t *testing.T) {
	h := start(t, nil)
	h.Adopt(nil)
	job := shell("trap 'exit 0' TERM; while :; do sleep 0.01; done")
	job.Timeout = 400
	h.keep = true // its end is still to be told where it comes before Close
	l := launch(job, 1)
	h.Start(l)
	h.running(l.Task)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end is on disk", func() bool {
		st, err := os.Stat(filepath.Join(h.dir, ".ends"))
		return err == nil && st.Size() > 0
	})
	h = start(t, func(c *Config) { c.Dir = h.dir })
	if lost := h.Adopt([]taskstate.Launch{l}); len(lost) != 0 {
		t.Fatalf("lost %+v", lost)
	}
	if end := h.end(l.Task); end.Reason != taskstate.ReasonTimeout {
		t.Errorf("%+v", end)
	}
}

func TestANumberGivenToSomebodyElseIsNeverTakenForATask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tasks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	boot := supervise.BootID()
	var lines strings.Builder
	for slot, rec := range []string{
		fmt.Sprintf("%d 0 1000 0 %s", c.Process.Pid, boot),                  // somebody else had the number before
		fmt.Sprintf("%d 0 99999999999 0 %s", c.Process.Pid, "another-boot"), // before the machine was started again
		fmt.Sprintf("1 0 99999999999 0 %s", boot),                           // never ours
		fmt.Sprintf("-%d 0 99999999999 0 %s", c.Process.Pid, boot),          // nonsense
		fmt.Sprintf("%d 99999999998 99999999999 0 %s", c.Process.Pid, boot), // later than it
		fmt.Sprintf("0 0 0 0 %s", boot),                                     // about to be started
	} {
		fmt.Fprintf(&lines, "%-190s\n", rec+" "+slotID(slot+1).String())
	}
	text := strings.ReplaceAll(lines.String(), "\n", " \n")
	if err := os.WriteFile(filepath.Join(dir, ".running"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := start(t, func(c *Config) { c.Dir = dir })
	job := shell("true")
	var all []taskstate.Launch
	for slot := 1; slot <= 6; slot++ {
		all = append(all, launch(job, slot))
	}
	h.Adopt(all)
	for _, slot := range []int{1, 2, 5, 6} {
		if end := h.end(slotID(slot)); end.State != taskstate.Orphaned || end.Reason != taskstate.ReasonInterrupted {
			t.Errorf("slot %d: %+v", slot, end)
		}
		if again := strings.Contains(h.end(slotID(slot)).Message, "machine was restarted"); again != (slot == 2) {
			t.Errorf("slot %d: %q", slot, h.end(slotID(slot)).Message)
		}
	}
	if c.Process.Signal(syscall.Signal(0)) != nil {
		t.Error("an innocent was killed")
	}
}

func TestAfterTheMachineWasRestartedNothingCountsAsNeverStarted(t *testing.T) {
	h := start(t, nil)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, ".boot"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	h = start(t, func(c *Config) { c.Dir = h.dir })
	if lost := h.Adopt([]taskstate.Launch{launch(shell("true"), 1)}); len(lost) != 1 || lost[0].Never || lost[0].Message == "" {
		t.Fatalf("%+v", lost)
	}
}

func TestASupervisorWithNothingToDoEnds(t *testing.T) {
	h := start(t, func(c *Config) { c.Idle = time.Millisecond })
	h.Adopt(nil)
	if supervisorOf(h.dir) != 0 {
		t.Fatal("it is there before the first process")
	}
	for slot := 1; slot <= 3; slot++ {
		l := launch(shell("exit 5"), slot)
		h.Start(l)
		if end := h.end(l.Task); end.Exit != 5 {
			t.Fatalf("%+v", end)
		}
		eventually(t, "it is gone", func() bool { return supervisorOf(h.dir) == 0 })
	}
}

func TestASupervisorWhoseFolderIsGoneEndsWithItsTasks(t *testing.T) {
	l := bear(t, waits)
	l.said("1 running", "2 running", "3 running")
	l.kill()
	l.remove()
	eventually(t, "it is gone", func() bool { return supervisorOf(l.dir) == 0 })
	nobodyCarries(t, 1, 2, 3)
}

func TestANewFolderOfTheSameNameDoesNotKeepTheOldTasksAlive(t *testing.T) {
	long.Test(t)
	l := bear(t, waits)
	l.said("1 running", "2 running", "3 running")
	old := supervisorOf(l.dir)
	l.kill()
	l.remove()
	h := l.next() // another incarnation: it knows of nothing
	if lost := h.Adopt(nil); len(lost) != 0 {
		t.Errorf("%+v", lost)
	}
	mine := launch(lifeJob("sleep 1000"), 9)
	h.Start(mine)
	h.running(mine.Task)
	p, err := os.FindProcess(old)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old supervisor is gone", func() bool { return p.Signal(syscall.Signal(0)) != nil })
	nobodyCarries(t, 1, 2, 3)
	if _, _, live := h.Live(mine.Task); !live {
		t.Error("the new one's task was ended, too")
	}
}

func TestWithoutASupervisorToBeHadNothingGoesOnUnseen(t *testing.T) {
	h := start(t, nil)
	h.Adopt(nil)
	job := launch(shell("sleep 1000"), 1)
	h.Start(job)
	h.running(job.Task)
	lock := filepath.Join(h.dir, ".supervisor")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(lock, 0o700); err != nil { // no new one can begin
		t.Fatal(err)
	}
	killSupervisor(t, h.dir)
	if end := h.end(job.Task); end.State != taskstate.Orphaned || end.Exit != taskstate.NoExit {
		t.Errorf("%+v", end)
	}
	nobodyCarries(t, 1) // its end was told
}
