package runner

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/runner/noop"
	"github.com/coveyproject/covey/node/runner/process"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

var (
	_ Executor = (*Runner)(nil)
	_ Executor = (*process.Executor)(nil)
	_ Executor = (*noop.Executor)(nil)
)

// kinds are the executors there are, each with what it is asked to run. A nil run is something
// that tasks of this kind cannot do.
var kinds = map[string]struct{ quick, fails, writes, goesOn, stubborn, refused *taskstate.Run }{
	"process": {
		quick: shell("true"), fails: shell("exit 7"), writes: shell("echo hello; echo oh >&2; sleep 60"), goesOn: shell("sleep 60"),
		stubborn: shell("trap '' TERM; echo ready; while :; do sleep 1; done"),
		refused:  &taskstate.Run{Process: &taskstate.Process{Command: []string{"no-such-program"}}},
	},
	"noop": {quick: nothing(0), goesOn: nothing(time.Minute), stubborn: nothing(time.Minute)},
}

func shell(line string) *taskstate.Run {
	return &taskstate.Run{Process: &taskstate.Process{Shell: true, Command: []string{line}}}
}

func nothing(d time.Duration) *taskstate.Run {
	return &taskstate.Run{Noop: &taskstate.Noop{Duration: d.Milliseconds()}}
}

var testJob = taskstate.NewJobID() // in every run another: processes are found by their task's id

func launch(run *taskstate.Run, slot int) taskstate.Launch {
	job := &taskstate.Job{ID: testJob, Name: "t", Type: taskstate.BatchJob, Count: 100, Run: *run}
	return taskstate.Launch{Task: taskstate.Task(job.ID, slot, 1), Job: job, Epoch: taskstate.At(1, 7), Index: 9, Peer: "wren"}
}

// life is a runner and what it reported. The ends it reports are journaled.
type life struct {
	*Runner
	folder string
	mu     sync.Mutex
	cond   sync.Cond
	got    map[taskstate.TaskID][]taskstate.RunReport
}

// live begins a life of the peer on a tasks folder.
func live(t *testing.T, dir string) *life {
	t.Helper()
	l := &life{folder: dir, got: map[taskstate.TaskID][]taskstate.RunReport{}}
	l.cond.L = &l.mu
	r, err := New(func(rep taskstate.RunReport) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got[rep.Task] = append(l.got[rep.Task], rep)
		l.cond.Broadcast()
	}, Config{Dir: dir, Grace: 100 * time.Millisecond, Environ: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	l.Runner = r
	t.Cleanup(func() {
		_ = r.Close()
		if err := supervise.EndAll(dir); err != nil {
			t.Error(err)
		}
	})
	return l
}

// until waits until the reports of a task satisfy ok, and returns them.
func (l *life) until(id taskstate.TaskID, ok func([]taskstate.RunReport) bool) []taskstate.RunReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !ok(l.got[id]) {
		l.cond.Wait()
	}
	return slices.Clone(l.got[id])
}

func (l *life) running(id taskstate.TaskID) taskstate.RunReport {
	return l.until(id, func(got []taskstate.RunReport) bool { return len(got) > 0 })[0]
}

func (l *life) ended(id taskstate.TaskID) taskstate.RunReport {
	got := l.until(id, func(got []taskstate.RunReport) bool { return len(got) > 0 && got[len(got)-1].State.Final() })
	l.Kept([]taskstate.TaskID{id})
	return got[len(got)-1]
}

// each runs a test with every executor that can do something.
func each(t *testing.T, what func(kind string) *taskstate.Run, f func(t *testing.T, l *life, run *taskstate.Run)) {
	for kind := range live(t, filepath.Join(t.TempDir(), "tasks")).executors {
		if _, known := kinds[kind]; !known {
			t.Errorf("executor %s: add it to the table of this file", kind)
		}
	}
	for kind := range kinds {
		if run := what(kind); run != nil {
			t.Run(kind, func(t *testing.T) { f(t, live(t, filepath.Join(t.TempDir(), "tasks")), run) })
		}
	}
}

func TestEveryExecutorReportsThatATaskRunsAndThenItsEnd(t *testing.T) {
	each(t, func(k string) *taskstate.Run { return kinds[k].quick }, func(t *testing.T, l *life, run *taskstate.Run) {
		task := launch(run, 1)
		l.Start(task)
		end := l.ended(task.Task)
		got := l.until(task.Task, func([]taskstate.RunReport) bool { return true })
		if len(got) != 2 || got[0].State != taskstate.Running || got[0].Exit != taskstate.NoExit || got[0].At == 0 {
			t.Errorf("reports %+v", got)
		}
		if end.State != taskstate.Complete || end.Exit != 0 || end.At == 0 || end.Message != "" {
			t.Errorf("end %+v", end)
		}
		if _, _, live := l.Live(task.Task); live {
			t.Error("it is over and may write")
		}
	})
}

func TestEveryExecutorTellsTheExitCode(t *testing.T) {
	each(t, func(k string) *taskstate.Run { return kinds[k].fails }, func(t *testing.T, l *life, run *taskstate.Run) {
		task := launch(run, 1)
		l.Start(task)
		if end := l.ended(task.Task); end.State != taskstate.Failed || end.Exit != 7 || end.Reason != taskstate.ReasonExit {
			t.Errorf("end %+v", end)
		}
	})
}

func TestEveryExecutorKeepsOutputAndSaysWhenItIsComplete(t *testing.T) {
	each(t, func(k string) *taskstate.Run { return kinds[k].writes }, func(t *testing.T, l *life, run *taskstate.Run) {
		task := launch(run, 1)
		l.Start(task)
		l.running(task.Task)
		over, limit, live := l.Live(task.Task)
		if !live || limit != process.DefaultLogCap {
			t.Fatalf("while it runs it may write: %v, up to %d", live, limit)
		}
		rel, err := task.Task.Folder()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"stdout": "hello\n", "stderr": "oh\n"} {
			for b := []byte(nil); string(b) != want; time.Sleep(time.Millisecond) {
				b, _ = os.ReadFile(filepath.Join(l.folder, rel, name))
			}
		}
		l.Stop(task.Task, taskstate.ReasonCancelled)
		<-over
		l.ended(task.Task)
		if err := l.Clean(task.Task.Job); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(l.folder, rel)); !os.IsNotExist(err) {
			t.Errorf("its folder is there after Clean: %v", err)
		}
	})
}

func TestEveryExecutorEndsWhatIsStoppedAndAfterTheGraceWhatWillNot(t *testing.T) {
	for name, what := range map[string]func(string) *taskstate.Run{
		"willing":  func(k string) *taskstate.Run { return kinds[k].goesOn },
		"stubborn": func(k string) *taskstate.Run { return kinds[k].stubborn },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, what, func(t *testing.T, l *life, run *taskstate.Run) {
				task := launch(run, 1)
				l.Start(task)
				l.running(task.Task)
				l.Start(task) // runs already: nothing happens
				l.Stop(task.Task, taskstate.ReasonCancelled)
				l.Stop(task.Task, taskstate.ReasonInterrupted)
				if end := l.ended(task.Task); end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonCancelled || end.Exit == 0 {
					t.Errorf("end %+v", end)
				}
				l.Stop(task.Task, taskstate.ReasonCancelled) // of one that is over: nothing happens
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if got := l.until(task.Task, func([]taskstate.RunReport) bool { return true }); len(got) != 2 {
					t.Errorf("reports %+v", got)
				}
			})
		})
	}
}

func TestEveryExecutorTakesUpWhatRunsAfterARestart(t *testing.T) {
	each(t, func(k string) *taskstate.Run { return kinds[k].goesOn }, func(t *testing.T, l *life, run *taskstate.Run) {
		if !l.Lasting() {
			t.Skip("nothing outlives a peer here")
		}
		task, never := launch(run, 1), launch(run, 2)
		l.Start(task)
		task.Since = l.running(task.Task).At
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		next := live(t, l.folder)
		lost := next.Adopt([]taskstate.Launch{task, never})
		if len(lost) != 1 || lost[0].Task != never.Task || !lost[0].Never {
			t.Fatalf("lost %+v", lost)
		}
		next.Stop(task.Task, taskstate.ReasonCancelled)
		if end := next.ended(task.Task); end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonCancelled {
			t.Errorf("end %+v", end)
		}
	})
}

func TestEveryExecutorRejectsWhatItCannotRunAndSaysWhy(t *testing.T) {
	each(t, func(k string) *taskstate.Run { return kinds[k].refused }, func(t *testing.T, l *life, run *taskstate.Run) {
		task := launch(run, 1)
		l.Start(task)
		got := l.until(task.Task, func(got []taskstate.RunReport) bool { return len(got) > 0 })
		if len(got) != 1 || got[0].State != taskstate.Rejected || got[0].Reason == "" || got[0].Message == "" || got[0].Exit != taskstate.NoExit {
			t.Errorf("reports %+v", got)
		}
	})
}

func TestEveryExecutorStartsNothingAfterClose(t *testing.T) {
	each(t, func(k string) *taskstate.Run { return kinds[k].goesOn }, func(t *testing.T, l *life, run *taskstate.Run) {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		task := launch(run, 1)
		l.Start(task)
		if _, _, live := l.Live(task.Task); live || len(l.reports.next) > 0 {
			t.Error("it starts")
		}
	})
}

func TestATaskOfAKindThatNobodyRunsIsRejected(t *testing.T) {
	l := live(t, filepath.Join(t.TempDir(), "tasks"))
	task := launch(&taskstate.Run{}, 1)
	if lost := l.Adopt([]taskstate.Launch{task}); len(lost) != 1 || !lost[0].Never {
		t.Errorf("lost %+v", lost)
	}
	l.Start(task)
	if end := l.ended(task.Task); end.State != taskstate.Rejected || end.Message == "" {
		t.Errorf("end %+v", end)
	}
}
