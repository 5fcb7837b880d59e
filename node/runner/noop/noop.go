package noop

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// Executor runs no-ops. Methods may be called by anybody at any time; none waits.
type Executor struct {
	report  func(...taskstate.RunReport)
	lasting bool

	mu    sync.Mutex
	tasks map[taskstate.TaskID]*task // not yet ended
	shut  bool
}

type task struct {
	began time.Time
	timer *time.Timer // its end
}

// New makes an executor that tells report what becomes of tasks; report must not block. lasting
// says that what runs at Close goes on in the next life of this peer.
func New(report func(...taskstate.RunReport), lasting bool) *Executor {
	return &Executor{report: report, lasting: lasting, tasks: map[taskstate.TaskID]*task{}}
}

// Start begins a no-op. One of no duration is reported without ever being listed.
func (e *Executor) Start(l taskstate.Launch) {
	now := time.Now().UnixMilli()
	running := taskstate.RunReport{Task: l.Task, State: taskstate.Running, Exit: taskstate.NoExit, At: now}
	if l.Job.Run.Noop.Duration <= 0 {
		e.report(running, taskstate.RunReport{Task: l.Task, State: taskstate.Complete, At: now})
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tasks[l.Task] == nil && !e.shut {
		e.report(running)
		e.await(l, 0)
	}
}

// await waits for the end of a no-op that has run for a while. Called with e.mu held.
func (e *Executor) await(l taskstate.Launch, already time.Duration) {
	d, end := time.Duration(l.Job.Run.Noop.Duration)*time.Millisecond, taskstate.RunReport{State: taskstate.Complete}
	if limit := time.Duration(l.Job.Timeout) * time.Millisecond; limit > 0 && limit < d {
		d, end = limit, taskstate.RunReport{State: taskstate.Failed, Exit: taskstate.NoExit, Reason: taskstate.ReasonTimeout, Message: l.Job.TimedOut()}
	}
	timer := time.AfterFunc(max(0, d-already), func() { e.end(l.Task, end) })
	e.tasks[l.Task] = &task{began: time.Now().Add(-already), timer: timer}
}

func (e *Executor) end(id taskstate.TaskID, r taskstate.RunReport) {
	e.mu.Lock()
	t := e.tasks[id]
	delete(e.tasks, id)
	e.mu.Unlock()
	if t != nil {
		t.timer.Stop()
		r.Task, r.Took = id, time.Since(t.began).Milliseconds()
		e.report(r)
	}
}

// Stop ends a no-op early.
func (e *Executor) Stop(id taskstate.TaskID, reason taskstate.Reason) {
	e.end(id, taskstate.RunReport{State: taskstate.Shutdown, Exit: taskstate.NoExit, Reason: reason, Message: "stopped: " + string(reason)})
}

// Adopt goes on waiting for what is left of no-ops that were running.
func (e *Executor) Adopt(tasks []taskstate.Launch) (lost []taskstate.Loss) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range tasks {
		if e.shut || l.Since == 0 || l.Job.Run.Noop.Duration <= 0 {
			lost = append(lost, taskstate.Loss{Task: l.Task, Never: true})
			continue
		}
		e.await(l, time.Duration(max(0, time.Now().UnixMilli()-l.Since))*time.Millisecond)
	}
	return lost
}

// Kept does nothing: nobody remembers the end of a no-op.
func (e *Executor) Kept([]taskstate.TaskID) {}

// Live is always false: a no-op writes nothing.
func (e *Executor) Live(taskstate.TaskID) (over <-chan struct{}, limit int64, live bool) {
	return nil, 0, false
}

// Clean does nothing: a no-op leaves nothing.
func (e *Executor) Clean(taskstate.JobID) error { return nil }

// Close forgets what runs, if that goes on later, and otherwise ends it as interrupted.
func (e *Executor) Close() error {
	e.mu.Lock()
	e.shut = true
	left := e.tasks
	if e.lasting {
		e.tasks = nil
	}
	for _, t := range left {
		t.timer.Stop()
	}
	ids := slices.Collect(maps.Keys(e.tasks))
	e.mu.Unlock()
	for _, id := range ids {
		e.Stop(id, taskstate.ReasonInterrupted)
	}
	return nil
}
