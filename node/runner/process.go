package runner

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"covey/taskstate"
)

// starter prepares and starts processes, one after the other. There are few of them: forks of one program go one at a time anyway.
func (r *Runner) starter() {
	for {
		r.mu.Lock()
		for len(r.queue) == 0 && !r.shut {
			r.work.Wait()
		}
		if len(r.queue) == 0 {
			r.mu.Unlock()
			return
		}
		t := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.mu.Unlock()
		r.launch(t)
	}
}

// launch brings a task from the queue to a running process, or to its end.
func (r *Runner) launch(t *task) {
	t.mu.Lock()
	stopped := t.stop
	t.mu.Unlock()
	if stopped != "" {
		r.finish(t, nil, taskstate.RunReport{State: taskstate.Shutdown, Exit: taskstate.NoExit, Reason: stopped, Message: "stopped before it started"})
		return
	}
	out, err := r.spawnTask(t)
	if err != nil {
		var why *rejection
		if !errors.As(err, &why) {
			why = reject(taskstate.ReasonPrepare, "could not be prepared: %v", err)
		}
		r.finish(t, out, taskstate.RunReport{State: taskstate.Rejected, Exit: taskstate.NoExit, Reason: why.reason, Message: why.message})
		return
	}
	r.reports.add(running(t.launch.Task, time.Now().UnixMilli()))
	r.all.Go(func() { r.await(t, out) })
}

// spawnTask makes the folder, finds the program and starts it. The output it returns, also with an error, is the caller's to finish.
func (r *Runner) spawnTask(t *task) (*output, error) {
	l, p := &t.launch, t.launch.Job.Run.Process
	rel, err := l.Task.Folder()
	if err != nil {
		return nil, err
	}
	home := filepath.Join(r.cfg.Dir, rel)
	if err := freshFolder(home); err != nil {
		return nil, err
	}
	out, err := openOutput(home, r.cfg.LogCap)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(home, "work")
	out.work = work
	dir, err := r.workFolder(work, p)
	if err != nil {
		return out, err
	}
	vars := coveyVars(*l)
	env := environment(r.base, p.Env, vars)
	argv := arguments(p, vars, l.Item)
	path := filepath.Join(work, scriptName)
	if len(p.Script) == 0 {
		if len(argv) == 0 {
			return out, reject(taskstate.ReasonNotFound, "the command is empty; name a program to run")
		}
		var why *rejection
		if path, why = lookup(argv[0], getenv(env, "PATH"), dir); why != nil {
			return out, why
		}
	}
	return out, r.startChild(t, spec{path: path, argv: argv, env: env, dir: dir, stdin: r.null, stdout: out.files[0].f, stderr: out.files[1].f}, out)
}

// startChild forks, and takes note of the process on disk and in t. A stop that came meanwhile is obeyed here.
func (r *Runner) startChild(t *task, s spec, out *output) error {
	mark := r.records.begin()
	c, err := spawn(s)
	if err != nil {
		return startError(s.argv[0], err)
	}
	out.slot = r.records.add(t.launch.Task, c.pid, mark)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.child = c
	if t.stop != "" {
		c.signal(sigTerm)
		r.killAfterGrace(t)
	} else if d := t.launch.Job.Timeout; d > 0 {
		t.waiting = r.clock.after(time.Duration(d)*time.Millisecond, func() { r.timeUp(t) })
	}
	return nil
}

func (r *Runner) timeUp(t *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.stop != "" || t.timeout || !t.child.signal(sigTerm) {
		return
	}
	t.timeout = true
	r.killAfterGrace(t)
}

// await sees a process to its end. One goroutine per running process.
func (r *Runner) await(t *task, out *output) {
	out.watch(r.clock)
	e := t.child.wait()
	t.mu.Lock()
	t.ended = true
	r.clock.stop(t.waiting)
	t.waiting = nil
	rep := classify(t, e)
	t.mu.Unlock()
	r.records.remove(out.slot)
	if e.alone {
		r.spare.offer(out.work)
	}
	r.finish(t, out, rep)
}

// finish completes the output, tells who follows it, and reports the end – in this order, so that whoever hears of the end can read it all.
func (r *Runner) finish(t *task, out *output, rep taskstate.RunReport) {
	if out != nil {
		sizes, err := out.finish(r.clock, t.launch.Task)
		if err != nil {
			r.cfg.Log.Warn("output of a task could not be completed", "task", t.launch.Task.String(), "error", err)
		}
		if t.child != nil {
			r.strays.add(r.clock, stray{task: t.launch.Task, home: out.home, sizes: sizes})
		}
	}
	r.forget(t.launch.Task)
	close(t.over)
	rep.Task = t.launch.Task
	r.report(rep)
}

// classify turns how a process ended, and what was asked of it, into an end. Called with t.mu held.
func classify(t *task, e ending) taskstate.RunReport {
	rep := taskstate.RunReport{Exit: e.exit, Signal: e.signal}
	if e.signal != 0 {
		rep.Exit = taskstate.NoExit
	}
	switch {
	case e.err != nil:
		rep.State, rep.Exit, rep.Reason = taskstate.Failed, taskstate.NoExit, taskstate.ReasonExit
		rep.Message = fmt.Sprintf("its end could not be seen: %v", e.err)
	case t.timeout:
		rep.State, rep.Exit, rep.Reason, rep.Message = taskstate.Failed, taskstate.NoExit, taskstate.ReasonTimeout, timeoutMessage(t)
	case t.stop != "":
		rep.State, rep.Reason, rep.Message = taskstate.Shutdown, t.stop, "stopped: "+string(t.stop)
	case e.signal != 0:
		rep.State, rep.Reason = taskstate.Failed, taskstate.ReasonSignal
		rep.Message = fmt.Sprintf("ended by signal %d (%v)", e.signal, syscall.Signal(e.signal))
	case e.exit != 0:
		rep.State, rep.Reason, rep.Message = taskstate.Failed, taskstate.ReasonExit, fmt.Sprintf("exit code %d", e.exit)
	default:
		rep.State = taskstate.Complete
	}
	return rep
}
