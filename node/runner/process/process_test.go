//go:build unix

package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

func TestATaskThatSucceedsIsRunningThenComplete(t *testing.T) {
	h := start(t, nil)
	id, end := h.run(process(taskstate.Process{Command: []string{"true"}}))
	if end.State != taskstate.Complete || end.Exit != 0 || end.Signal != 0 || end.At == 0 {
		t.Fatalf("end = %+v", end)
	}
	if got := h.states(id); !slices.Equal(got, []taskstate.State{taskstate.Running, taskstate.Complete}) {
		t.Fatalf("states = %v", got)
	}
}

func TestAnExitCodeFailsTheTaskAndIsReported(t *testing.T) {
	h := start(t, nil)
	for i, code := range []int{1, 3, 126, 127, 255} {
		l := launch(shell("exit %d", code), i+1)
		h.Start(l)
		end := h.end(l.Task)
		if end.State != taskstate.Failed || end.Exit != code || end.Reason != taskstate.ReasonExit {
			t.Fatalf("exit %d: %+v", code, end)
		}
	}
}

func TestASignalFromElsewhereFailsTheTaskAndIsReported(t *testing.T) {
	h := start(t, nil)
	_, end := h.run(shell("kill -9 $$"))
	if end.State != taskstate.Failed || end.Signal != 9 || end.Exit != taskstate.NoExit || end.Reason != taskstate.ReasonSignal {
		t.Fatalf("end = %+v", end)
	}
}

func TestOutputGoesToItsFilesAndInputIsEmpty(t *testing.T) {
	h := start(t, nil)
	id, _ := h.run(shell("cat; echo out; echo err >&2"))
	if got := h.file(id, "stdout"); got != "out\n" {
		t.Errorf("stdout = %q", got)
	}
	if got := h.file(id, "stderr"); got != "err\n" {
		t.Errorf("stderr = %q", got)
	}
}

func TestAUserWithoutANameIsCalledByItsNumber(t *testing.T) {
	if got := userName(1954680365); got != "task-1954680365" {
		t.Error(got)
	}
}

func TestTheEnvironmentIsExactlyWhatIsPromised(t *testing.T) {
	h := start(t, func(c *Config) {
		c.Environ = []string{"PATH=/usr/bin:/bin", "HOME=/h", "LANG=C", "TMPDIR=/tmp", "SECRET=1"}
	})
	id, end := h.run(process(taskstate.Process{Command: []string{"env"}, Env: map[string]string{"B": "two words", "A": "1", "HOME": "/other", "COVEY_SLOT": "forged"}}))
	if end.State != taskstate.Complete {
		t.Fatalf("end = %+v", end)
	}
	got := strings.Split(strings.TrimSpace(h.file(id, "stdout")), "\n")
	slices.Sort(got)
	want := []string{
		"A=1", "B=two words", "COVEY_ATTEMPT=1", "COVEY_COUNT=3", "COVEY_EPOCH=1/7", "COVEY_ITEM=an item", "COVEY_JOB=" + string(testJob),
		"COVEY_PEER=wren", "COVEY_SLOT=1", "COVEY_TASK=" + string(testJob) + ".1.1", "HOME=/other", "LANG=C", "PATH=/usr/bin:/bin", "TMPDIR=/tmp",
		"USER=" + userName(os.Getuid()), "LOGNAME=" + userName(os.Getuid()),
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("environment:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestATaskStartsInAnEmptyFolderOfItsOwnOrBelowIt(t *testing.T) {
	h := start(t, nil)
	id, _ := h.run(shell("pwd -P; ls -A"))
	rel, _ := id.Folder()
	want, _ := filepath.EvalSymlinks(filepath.Join(h.dir, rel, "work"))
	if got := h.file(id, "stdout"); got != want+"\n" {
		t.Errorf("got %q, want only %q", got, want)
	}
	l := launch(process(taskstate.Process{Shell: true, Command: []string{"pwd -P"}, Dir: "a/b"}), 2)
	h.Start(l)
	h.end(l.Task)
	if got := h.file(l.Task, "stdout"); !strings.HasSuffix(got, "/2.1/work/a/b\n") {
		t.Errorf("dir: %q", got)
	}
}

func TestADirOutsideTheFolderIsRejected(t *testing.T) {
	h := start(t, nil)
	for i, dir := range []string{"../x", "/tmp", "a/../../b"} {
		l := launch(process(taskstate.Process{Command: []string{"true"}, Dir: dir}), i+1)
		h.Start(l)
		if end := h.end(l.Task); end.State != taskstate.Rejected || end.Reason != taskstate.ReasonPrepare {
			t.Errorf("%s: %+v", dir, end)
		}
	}
}

func TestAnAttemptStartedAgainFindsAFreshFolder(t *testing.T) {
	h := start(t, nil)
	h.run(shell("echo old > kept; mkdir locked; touch locked/in; chmod 0500 locked"))
	h.mu.Lock()
	clear(h.got)
	h.mu.Unlock()
	id, _ := h.run(shell("ls -A"))
	if got := h.file(id, "stdout"); got != "" {
		t.Errorf("left over: %q", got)
	}
}

func TestAScriptTravelsWithTheJobAndGetsTheCommandAsArguments(t *testing.T) {
	h := start(t, nil)
	for slot := 1; slot <= 40; slot++ { // many at once: none may be "text file busy"
		h.Start(launch(process(taskstate.Process{Script: []byte("#!/bin/sh\necho $# \"$1\"; ls -l script | cut -c1-10\n"), Command: []string{"<${COVEY_SLOT}> {}"}, Braces: true}), slot))
	}
	for slot := 1; slot <= 40; slot++ {
		id := taskstate.Task(testJob, slot, 1)
		if end := h.end(id); end.State != taskstate.Complete {
			t.Fatalf("slot %d: %+v", slot, end)
		}
		if got, want := h.file(id, "stdout"), "1 <"+strconv.Itoa(slot)+"> an item\n-rwx------\n"; got != want {
			t.Fatalf("slot %d: %q, want %q", slot, got, want)
		}
	}
}

func TestACommandThatIsNotThereIsRejectedWithThePathSearched(t *testing.T) {
	h := start(t, func(c *Config) { c.Environ = []string{"PATH=/nowhere:/bin"} })
	_, end := h.run(process(taskstate.Process{Command: []string{"no-such-program"}}))
	if end.State != taskstate.Rejected || end.Reason != taskstate.ReasonNotFound || end.Exit != taskstate.NoExit || !strings.Contains(end.Message, "/nowhere:/bin") {
		t.Fatalf("end = %+v", end)
	}
	if got := h.states(end.Task); len(got) != 1 {
		t.Fatalf("it never ran, yet: %v", got)
	}
}

func TestWhatCannotBeExecutedIsRejectedWithAReason(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := write("plain", "#!/bin/sh\n", 0o600)
	cases := []struct {
		name    string
		process taskstate.Process
		reason  taskstate.Reason
	}{
		{"no x bit, by path", taskstate.Process{Command: []string{plain}}, taskstate.ReasonNotExec},
		{"no x bit, in PATH", taskstate.Process{Command: []string{"plain"}, Env: map[string]string{"PATH": dir}}, taskstate.ReasonNotExec},
		{"a folder", taskstate.Process{Command: []string{dir}}, taskstate.ReasonNotExec},
		{"no #! line", taskstate.Process{Command: []string{write("bare", "echo hello\n", 0o700)}}, taskstate.ReasonNotExec},
		{"interpreter missing", taskstate.Process{Command: []string{write("odd", "#!/no/such\n", 0o700)}}, taskstate.ReasonNotFound},
		{"lines that end as on Windows", taskstate.Process{Command: []string{write("crlf", "#!/bin/sh\r\n", 0o700)}}, taskstate.ReasonNotExec},
		{"a script whose lines do", taskstate.Process{Script: []byte("#!/bin/sh\r\necho\r\n")}, taskstate.ReasonNotExec},
		{"interpreter that may not be executed", taskstate.Process{Script: []byte("#!/etc/passwd\n")}, taskstate.ReasonNotExec},
		{"arguments that are too long", taskstate.Process{Command: []string{"true", strings.Repeat("x", 1<<20)}}, taskstate.ReasonNotExec},
		{"path missing", taskstate.Process{Command: []string{"./nothing"}}, taskstate.ReasonNotFound},
		{"empty command", taskstate.Process{}, taskstate.ReasonNotFound},
		{"empty name", taskstate.Process{Command: []string{""}}, taskstate.ReasonNotFound},
		{"empty PATH", taskstate.Process{Command: []string{"true"}, Env: map[string]string{"PATH": ""}}, taskstate.ReasonNotFound},
		{"script without #!", taskstate.Process{Script: []byte("echo\n")}, taskstate.ReasonNotExec},
		{"NUL in an argument", taskstate.Process{Command: []string{"true", "a\x00b"}}, taskstate.ReasonPrepare},
	}
	h := start(t, nil)
	for i, c := range cases {
		l := launch(process(c.process), i+1)
		h.Start(l)
		if end := h.end(l.Task); end.State != taskstate.Rejected || end.Reason != c.reason || end.Message == "" {
			t.Errorf("%s: %+v", c.name, end)
		}
	}
}

func TestAFolderThatCannotBeMadeRejectsTheTaskWithTheCause(t *testing.T) {
	h := start(t, nil)
	if err := os.WriteFile(filepath.Join(h.dir, string(testJob)), nil, 0o600); err != nil { // in the way; works for root, too
		t.Fatal(err)
	}
	_, end := h.run(process(taskstate.Process{Command: []string{"true"}}))
	if end.State != taskstate.Rejected || end.Reason != taskstate.ReasonPrepare || !strings.Contains(end.Message, string(testJob)) {
		t.Fatalf("end = %+v", end)
	}
}

func TestATaskIDThatLeadsOutOfTheFolderIsRejected(t *testing.T) {
	h := start(t, nil)
	job := process(taskstate.Process{Command: []string{"true"}})
	job.ID = "../../x"
	if _, end := h.run(job); end.State != taskstate.Rejected {
		t.Fatalf("end = %+v", end)
	}
}

// timedOut runs a script that says that it is ready once it has set its trap, with a timeout that
// becomes longer until the machine is fast enough for that.
func (h *harness) timedOut(script string) (out string, end taskstate.RunReport) {
	for timeout, slot := int64(50), 1; ; timeout, slot = 2*timeout, slot+1 {
		job := shell("%s", script)
		job.Timeout, job.Count = timeout, slot
		l := launch(job, slot)
		h.Start(l)
		end = h.end(l.Task)
		out, ready := strings.CutPrefix(h.file(l.Task, "stdout"), "ready\n")
		if ready || timeout > time.Minute.Milliseconds() {
			return out, end
		}
	}
}

func TestATimeoutEndsWithSIGTERMAndFailsTheTask(t *testing.T) {
	h := start(t, func(c *Config) { c.Grace = time.Minute }) // for its trap, however busy the machine is
	out, end := h.timedOut("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	if end.State != taskstate.Failed || end.Reason != taskstate.ReasonTimeout || end.Exit != taskstate.NoExit {
		t.Fatalf("end = %+v", end)
	}
	if out != "bye\n" {
		t.Fatalf("it should have heard SIGTERM: %q", out)
	}
}

func TestWhoIgnoresSIGTERMIsKilledAfterTheGrace(t *testing.T) {
	h := start(t, nil)
	if _, end := h.timedOut("trap '' TERM; echo ready; while :; do sleep 0.01; done"); end.Reason != taskstate.ReasonTimeout || end.Signal != int(syscall.SIGKILL) {
		t.Fatalf("end = %+v", end)
	}
}

func TestAStoppedTaskEndsAsShutdownForTheReasonGiven(t *testing.T) {
	h := start(t, nil)
	l := launch(shell("sleep 1000"), 1)
	h.Start(l)
	h.running(l.Task)
	h.Stop(l.Task, taskstate.ReasonCancelled)
	h.Stop(l.Task, taskstate.ReasonInterrupted)
	if end := h.end(l.Task); end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonCancelled || end.Signal != int(syscall.SIGTERM) {
		t.Fatalf("end = %+v", end)
	}
	h.Stop(l.Task, taskstate.ReasonCancelled) // over: nothing happens
}

func TestAStopRightAfterTheStartIsObeyed(t *testing.T) {
	h := start(t, nil)
	for slot := 1; slot <= 30; slot++ {
		l := launch(shell("sleep 1000"), slot)
		h.Start(l)
		h.Stop(l.Task, taskstate.ReasonRecalled)
		if end := h.end(l.Task); end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonRecalled {
			t.Fatalf("end = %+v", end)
		}
	}
}

func TestWhatIsLeftOfTheGroupIsKilledWithTheTask(t *testing.T) {
	h := start(t, nil)
	// A grandchild that ignores SIGTERM holds the write end of a fifo: it is gone when the fifo
	// ends.
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for slot, line := range []string{"(trap '' TERM; sh -c 'echo >up; while :; do sleep 0.05; done' >%s) & until [ -e up ]; do sleep 0.01; done; exit 0", "(trap '' TERM; while :; do sleep 0.05; done) >%s & sleep 1000"} {
		l := launch(shell(line, fifo), slot+1)
		h.Start(l)
		r, err := os.Open(fifo) // returns when the grandchild has opened its end
		if err != nil {
			t.Fatal(err)
		}
		if slot == 1 {
			h.Stop(l.Task, taskstate.ReasonCancelled)
		}
		h.end(l.Task)
		_ = r.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := r.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
			t.Errorf("a grandchild of %q still lives: %d, %v", line, n, err)
		}
		_ = r.Close()
	}
}

func TestWithoutASupervisorCloseInterruptsWhatRunsAndReportsIt(t *testing.T) {
	h := start(t, func(c *Config) { c.Starters, c.InProcess = 1, true })
	for slot := 1; slot <= 5; slot++ {
		h.Start(launch(shell("sleep 1000"), slot))
	}
	h.running(taskstate.Task(testJob, 1, 1))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for slot := 1; slot <= 5; slot++ {
		got := h.states(taskstate.Task(testJob, slot, 1))
		if len(got) == 0 || got[len(got)-1] != taskstate.Shutdown {
			t.Errorf("slot %d: %v", slot, got)
		}
	}
	h.Start(launch(shell("true"), 9))
	if _, _, live := h.Live(taskstate.Task(testJob, 9, 1)); live {
		t.Error("something starts after Close")
	}
}

// slowInputs does not bring anything before it is told that nobody wants it any more.
type slowInputs struct{ asked chan struct{} }

func (s slowInputs) Place(ctx context.Context, _ taskstate.Launch, _ string, _ func(string)) error {
	close(s.asked)
	<-ctx.Done()
	return ctx.Err()
}

// heldInputs places the inputs of a task when it is let, or until the task is stopped.
type heldInputs struct{ let chan struct{} }

func (s heldInputs) Place(ctx context.Context, l taskstate.Launch, _ string, say func(string)) error {
	say("placing 2.1 GiB, 40 % here")
	select {
	case <-s.let:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestWhileInputsArePlacedThatIsReportedAndOtherTasksStart(t *testing.T) {
	in := heldInputs{make(chan struct{})}
	h := start(t, func(c *Config) { c.Starters, c.Inputs = 1, in })
	fed := shell("true")
	fed.Inputs = []taskstate.Input{{}}
	starting := func(text string) func(taskstate.RunReport) bool {
		return func(r taskstate.RunReport) bool { return r.State == taskstate.Starting && r.Message == text }
	}
	h.Start(launch(fed, 1))
	h.until(taskstate.Task(testJob, 1, 1), starting("placing 2.1 GiB, 40 % here"))
	h.Start(launch(fed, 2)) // no more are placed at once
	h.until(taskstate.Task(testJob, 2, 1), starting("placing its inputs"))
	h.Start(launch(shell("true"), 3))
	if end := h.end(taskstate.Task(testJob, 3, 1)); end.State != taskstate.Complete {
		t.Errorf("a task without inputs ends as %v", end.State)
	}
	close(in.let)
	for slot := 1; slot <= 2; slot++ {
		id := taskstate.Task(testJob, slot, 1)
		h.end(id)
		got := h.states(id)
		if n := len(got); got[n-1] != taskstate.Complete || got[n-2] != taskstate.Running || got[0] != taskstate.Starting {
			t.Errorf("slot %d: %v", slot, got)
		}
	}
}

func TestAStopEndsThePlacingOfInputs(t *testing.T) {
	h := start(t, func(c *Config) { c.Starters, c.Inputs = 1, heldInputs{} })
	fed := shell("true")
	fed.Inputs = []taskstate.Input{{}}
	for slot := 1; slot <= 2; slot++ { // the second waits for the first
		h.Start(launch(fed, slot))
	}
	for slot := 2; slot >= 1; slot-- {
		id := taskstate.Task(testJob, slot, 1)
		h.Stop(id, taskstate.ReasonCancelled)
		if end := h.end(id); end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonCancelled {
			t.Errorf("slot %d ends as %+v", slot, end)
		}
	}
}

func TestWithoutASupervisorCloseDoesNotWaitForWhatATaskNeeds(t *testing.T) {
	in := slowInputs{make(chan struct{})}
	h := start(t, func(c *Config) { c.InProcess, c.Inputs = true, in })
	job := shell("true")
	job.Inputs = []taskstate.Input{{}}
	l := launch(job, 1)
	h.Start(l)
	<-in.asked
	closed := make(chan error, 1)
	go func() { closed <- h.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close waits for an input that does not come")
	}
	if end := h.end(l.Task); end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonInterrupted {
		t.Errorf("it ended as %v, %s: %s", end.State, end.Reason, end.Message)
	}
}

func TestCleanRemovesAJobAndNothingElse(t *testing.T) {
	h := start(t, nil)
	h.run(shell("mkdir -p a/b; chmod 0 a"))
	other := shell("true")
	other.ID = "aaaaaaaaaa"
	h.run(other)
	if err := h.Clean(testJob); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(h.dir, string(testJob))); !os.IsNotExist(err) {
		t.Error("the job's folder is still there")
	}
	if _, err := os.Stat(filepath.Join(h.dir, "aaaaaaaaaa")); err != nil {
		t.Error(err)
	}
	if h.Clean(testJob) != nil || h.Clean("..") == nil || h.Clean("") == nil {
		t.Error("Clean: gone twice must be fine, leading out must not")
	}
}

func TestAnEndSaysHowLongItTook(t *testing.T) {
	h := start(t, nil)
	for i, job := range []*taskstate.Job{shell("sleep 0.12"), shell("sleep 0.12; exit 3"), shell("sleep 0.12; kill -9 $$")} {
		l := launch(job, i+1)
		h.Start(l)
		if end := h.end(l.Task); end.Took < 120 {
			t.Errorf("%v: it took %d ms", end.State, end.Took)
		}
	}
	l := launch(process(taskstate.Process{Command: []string{"no-such-program"}}), 9)
	h.Start(l)
	if end := h.end(l.Task); end.Took != 0 {
		t.Errorf("what never ran took %d ms", end.Took)
	}
}

func TestAProcessThatTheMachineRefusesForNowIsGivenBackWithTheReason(t *testing.T) {
	job := process(taskstate.Process{Command: []string{"true"}})
	for _, errno := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		end := classify(&task{launch: launch(job, 1)}, supervise.Event{Kind: supervise.Refused, Errno: int(errno), Err: "what happened"})
		if end.State != taskstate.Rejected || end.Reason != taskstate.ReasonStuck || end.Exhausted != "what happened" || !strings.Contains(end.Message, "what happened") {
			t.Errorf("%v: %+v", errno, end)
		}
		if why := unprepared(fmt.Errorf("open: %w", errno)); why.reason != taskstate.ReasonStuck || why.exhausted == "" {
			t.Errorf("%v while it was prepared: %+v", errno, why)
		}
	}
	limited := launch(job, 1)
	limited.Confinement = &taskstate.Confinement{Limits: []taskstate.Limit{{Of: taskstate.LimitProcesses, Max: 1}}}
	if end := classify(&task{launch: limited}, supervise.Event{Kind: supervise.Refused, Errno: int(syscall.EAGAIN)}); end.Reason != taskstate.ReasonStuck || end.Exhausted != "" {
		t.Errorf("a task with a limit of its own: %+v", end)
	}
	if end := classify(&task{launch: launch(job, 1)}, supervise.Event{Kind: supervise.Refused, Errno: int(syscall.ENOENT)}); end.Exhausted != "" {
		t.Errorf("no such file: %+v", end)
	}
}
