package process

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// testJob is another in every run of these tests, and the same in the processes that one starts:
// what is lost is looked for on the whole machine, by its task's id.
var testJob = func() taskstate.JobID {
	const env = "COVEY_TEST_JOB"
	if os.Getenv(env) == "" {
		_ = os.Setenv(env, string(taskstate.NewJobID()))
	}
	return taskstate.JobID(os.Getenv(env))
}()

// harness is an executor and everything it reported.
type harness struct {
	*Executor
	t    testing.TB
	dir  string
	mu   sync.Mutex
	cond sync.Cond
	got  map[taskstate.TaskID][]taskstate.RunReport
	keep bool // the worker never journals an end

	delivered *sync.WaitGroup
}

func start(t testing.TB, change func(*Config)) *harness {
	h := &harness{t: t, dir: filepath.Join(t.TempDir(), "tasks"), got: make(map[taskstate.TaskID][]taskstate.RunReport)}
	h.cond.L = &h.mu
	report, delivered := queued(h.sink)
	h.delivered = delivered
	cfg := Config{Dir: h.dir, Report: report, Grace: 200 * time.Millisecond, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=/h", "LANG=C", "TMPDIR=/tmp", "SECRET=1"}}
	if change != nil {
		change(&cfg)
	}
	h.dir = cfg.Dir
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Executor = r
	t.Cleanup(func() {
		_ = r.Close()
		if err := supervise.EndAll(cfg.Dir); err != nil {
			t.Error(err)
		}
	})
	return h
}

// queued hands reports on from a goroutine of its own: an executor must not wait for who reads
// them.
func queued(sink func(taskstate.RunReport)) (report func(...taskstate.RunReport), delivered *sync.WaitGroup) {
	queue := make(chan taskstate.RunReport, 1<<16)
	delivered = new(sync.WaitGroup)
	go func() { // lives as long as the test binary
		for r := range queue {
			sink(r)
			delivered.Done()
		}
	}()
	return func(reports ...taskstate.RunReport) {
		for _, r := range reports {
			delivered.Add(1)
			queue <- r
		}
	}, delivered
}

// Close closes the executor and waits until everything it reported has been heard.
func (h *harness) Close() error {
	err := h.Executor.Close()
	h.delivered.Wait()
	return err
}

func (h *harness) sink(r taskstate.RunReport) {
	h.mu.Lock()
	h.got[r.Task] = append(h.got[r.Task], r)
	keep := h.keep
	h.mu.Unlock()
	if r.State.Final() && !keep {
		h.Kept([]taskstate.TaskID{r.Task})
	}
	h.cond.Broadcast()
}

// until waits for a report of a task that satisfies ok.
func (h *harness) until(id taskstate.TaskID, ok func(taskstate.RunReport) bool) taskstate.RunReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		for _, r := range h.got[id] {
			if ok(r) {
				return r
			}
		}
		h.cond.Wait()
	}
}

func (h *harness) end(id taskstate.TaskID) taskstate.RunReport {
	return h.until(id, func(r taskstate.RunReport) bool { return r.State.Final() })
}

func (h *harness) running(id taskstate.TaskID) {
	h.until(id, func(r taskstate.RunReport) bool { return r.State == taskstate.Running || r.State.Final() })
}

// states are those reported of a task, in order.
func (h *harness) states(id taskstate.TaskID) (out []taskstate.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.got[id] {
		out = append(out, r.State)
	}
	return out
}

func (h *harness) path(id taskstate.TaskID, name string) string {
	h.t.Helper()
	rel, err := id.Folder()
	if err != nil {
		h.t.Fatal(err)
	}
	return filepath.Join(h.dir, rel, name)
}

func (h *harness) file(id taskstate.TaskID, name string) string {
	h.t.Helper()
	b, err := os.ReadFile(h.path(id, name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

func process(p taskstate.Process) *taskstate.Job {
	return &taskstate.Job{ID: testJob, Name: "t", Type: taskstate.BatchJob, Count: 3, Run: taskstate.Run{Process: &p}}
}

func shell(line string, a ...any) *taskstate.Job {
	return process(taskstate.Process{Shell: true, Command: []string{fmt.Sprintf(line, a...)}})
}

func noop(d time.Duration) *taskstate.Job {
	return &taskstate.Job{ID: testJob, Name: "n", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{Duration: d.Milliseconds()}}}
}

func launch(job *taskstate.Job, slot int) taskstate.Launch {
	return taskstate.Launch{Task: taskstate.Task(job.ID, slot, 1), Job: job, Item: "an item", Epoch: taskstate.At(1, 7), Index: 9, Peer: "wren"}
}

// run starts a job's first slot and waits for its end.
func (h *harness) run(job *taskstate.Job) (taskstate.TaskID, taskstate.RunReport) {
	l := launch(job, 1)
	h.Start(l)
	return l.Task, h.end(l.Task)
}
