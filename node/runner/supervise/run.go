package supervise

import (
	"fmt"
	"sync"
	"time"
)

// proc is one process that is not over. mu guards what may change.
type proc struct {
	spec    Spec
	mu      sync.Mutex
	p       process // nil: not started yet
	out     *output
	slot    int
	at      int64
	stop    string
	timeout bool
	ended   bool
	waiting *time.Timer // timeout or grace
}

// Start runs a process. One that is here already is left alone, and after Close none starts.
func (e *Engine) Start(s Spec) {
	e.mu.Lock()
	t, over := e.taken[s.Task]
	flush := e.flush
	switch {
	case over && e.sink != nil: // not twice: its end is told again
		e.sink(t.event)
	case over:
	default:
		e.begin(s)
	}
	e.mu.Unlock()
	if over && flush != nil {
		flush()
	}
}

// begin is called with e.mu held.
func (e *Engine) begin(s Spec) {
	if _, here := e.procs[s.Task]; here || e.shut {
		return
	}
	x := &proc{spec: s, slot: -1}
	e.procs[s.Task] = x
	e.all.Go(func() { e.run(x) })
}

// run sees a process from its start to its end.
func (e *Engine) run(x *proc) {
	e.forks <- struct{}{}
	ok := e.fork(x)
	<-e.forks
	if ok {
		e.await(x)
	}
}

// fork starts the process, or reports why it could not.
func (e *Engine) fork(x *proc) bool {
	x.mu.Lock()
	stop := x.stop
	x.mu.Unlock()
	if stop != "" {
		e.over(x, Event{Kind: Ended, Task: x.spec.Task, At: now(), Reason: stop, Unbegun: true})
		return false
	}
	logCap, _ := e.limits()
	out, err := openOutput(x.spec.Home, logCap)
	if err != nil {
		e.over(x, refused(x.spec.Task, err))
		return false
	}
	rec, err := e.records.begin(x.spec.Task)
	if err != nil { // it could not be told from one that never started, should this process be killed
		out.close()
		e.over(x, refused(x.spec.Task, fmt.Errorf("it cannot be noted that it runs: %w", err)))
		return false
	}
	x.slot = rec.slot
	c, err := spawn(spec{
		path: x.spec.Path, argv: x.spec.Argv, env: x.spec.Env, dir: x.spec.Dir, stdin: e.null, stdout: out.files[0].f, stderr: out.files[1].f,
	})
	if err != nil {
		out.close()
		e.over(x, refused(x.spec.Task, err))
		return false
	}
	e.forked(x, c, out, rec)
	return true
}

// forked takes note of a process on disk and in x. A stop that came meanwhile is obeyed here.
func (e *Engine) forked(x *proc, c *child, out *output, rec record) {
	var deadline int64
	if d := x.spec.Timeout; d > 0 {
		deadline = sinceBoot() + d.Milliseconds()
	}
	e.records.started(rec, c.pid, deadline)
	_, grace := e.limits() // before x.mu: Attach takes the locks in that order
	x.mu.Lock()
	x.p, x.out, x.at = c, out, now()
	if x.stop != "" {
		c.signal(sigTerm)
		e.kill(x, grace)
	} else if x.spec.Timeout > 0 {
		x.waiting = time.AfterFunc(x.spec.Timeout, func() { e.timeUp(x) })
	}
	x.mu.Unlock()
	e.tell(Event{Kind: Started, Task: x.spec.Task, At: x.at})
}

// await sees a process to its end.
func (e *Engine) await(x *proc) {
	select {
	case e.wake <- struct{}{}:
	default:
	}
	how := x.p.wait()
	ev := Event{Kind: Ended, Task: x.spec.Task, At: now(), Exit: how.exit, Signal: how.signal, Alone: how.alone}
	x.mu.Lock()
	x.ended = true
	if x.waiting != nil {
		x.waiting.Stop()
	}
	ev.Reason, ev.Timeout = x.stop, x.timeout
	if how.err != nil {
		ev.Unseen, ev.Err = true, how.err.Error()
	}
	if x.out != nil {
		var err error
		if ev.Sizes, err = x.out.finish(x.spec.Task); err != nil {
			e.warn("output of task " + x.spec.Task + " could not be completed: " + err.Error())
		}
	}
	x.mu.Unlock()
	e.over(x, ev)
}

// over hands out the end of a task.
func (e *Engine) over(x *proc, ev Event) {
	e.mu.Lock()
	delete(e.procs, x.spec.Task)
	e.taken[x.spec.Task] = end{event: ev, slot: x.slot}
	flush := e.flush
	if e.sink != nil {
		e.sink(ev)
	} else {
		e.keep()
	}
	e.mu.Unlock()
	if flush != nil {
		flush()
	}
}

func (e *Engine) tell(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sink != nil {
		e.sink(ev)
	}
}
