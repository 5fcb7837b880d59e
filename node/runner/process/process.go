package process

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// starter prepares processes, one after the other, and hands them to the keeper.
func (r *Executor) starter() {
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

// sayAfter is how long the start of a task with inputs may take before that is reported.
const sayAfter = time.Second

// launchWithInputs launches a task with inputs. Placing them may take long: a few tasks place
// theirs at once, no starter waits for them, and the task is reported as starting meanwhile.
func (r *Executor) launchWithInputs(t *task) {
	defer t.cancel()
	slow := time.AfterFunc(sayAfter, func() { r.starting(t, "placing its inputs") })
	defer slow.Stop()
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-t.life.Done():
		if t.stopped() == "" {
			return // it is as if it had never been here
		}
	}
	r.launch(t)
}

// starting reports what is done for a task before its process begins.
func (r *Executor) starting(t *task, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.sent && !t.shown && !t.ended {
		r.cfg.Report(taskstate.RunReport{Task: t.launch.Task, State: taskstate.Starting, Exit: taskstate.NoExit, At: time.Now().UnixMilli(), Message: text})
	}
}

// launch brings a task to the keeper, or to its end.
func (r *Executor) launch(t *task) {
	if stopped := t.stopped(); stopped != "" {
		r.finish(t, stoppedBefore(stopped))
		return
	}
	s, err := r.prepare(t)
	if err != nil {
		emptyOutput(s.Home)
		r.drop(t)
		stopped := t.stopped()
		switch {
		case stopped != "":
			r.finish(t, stoppedBefore(stopped))
		case r.life.Err() == nil: // otherwise it is as if it had never been here
			r.finish(t, rejected(whyUnprepared(err)))
		}
		return
	}
	if s.Stdin {
		r.startFed(t, s)
		return
	}
	r.begin(t, s)
}

// begin hands a prepared task to the keeper.
func (r *Executor) begin(t *task, s supervise.Spec) {
	r.keeper.Start(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = true
	if t.stop != "" && !t.ended {
		r.keeper.Stop(s.Task, string(t.stop))
	}
}

// stopped is why a task was asked to stop, "" if it was not.
func (t *task) stopped() taskstate.Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stop
}

// whyUnprepared is what prepare's error says of a task.
func whyUnprepared(err error) *rejection {
	if why, ok := errors.AsType[*rejection](err); ok {
		return why
	}
	return unprepared(err)
}

// unprepared is why a task could not be prepared: if the disk takes nothing, that is no fault of
// the task.
func unprepared(err error) *rejection {
	if supervise.TakesNothing(err) {
		return reject(taskstate.ReasonStuck, "could not be prepared, the disk of its peer takes nothing: %v", err)
	}
	if supervise.Exhausted(err) {
		return exhausted(err.Error())
	}
	return reject(taskstate.ReasonPrepare, "could not be prepared: %v", err)
}

// exhausted is why a task could not be started that its peer's machine refused a process or a file.
func exhausted(text string) *rejection {
	why := reject(taskstate.ReasonStuck, "its peer's machine refused it a process or a file: %s", text)
	why.exhausted = text
	return why
}

// limitsProcesses reports whether a task has a limit of processes of its own.
func limitsProcesses(c *taskstate.Confinement) bool {
	return c != nil && slices.ContainsFunc(c.Limits, func(l taskstate.Limit) bool { return l.Of == taskstate.LimitProcesses })
}

func stoppedBefore(reason taskstate.Reason) taskstate.RunReport {
	return taskstate.RunReport{State: taskstate.Shutdown, Exit: taskstate.NoExit, Reason: reason, Message: "stopped before it started"}
}

func rejected(why *rejection) taskstate.RunReport {
	return taskstate.RunReport{State: taskstate.Rejected, Exit: taskstate.NoExit, Reason: why.reason, Message: why.message, Exhausted: why.exhausted}
}

// emptyOutput leaves the two files of a task that never ran, so that its output is empty instead of
// not there.
func emptyOutput(home string) {
	if home == "" {
		return
	}
	for _, name := range supervise.Streams() {
		if f, err := os.OpenFile(filepath.Join(home, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
			_ = f.Close()
		}
	}
}

// prepare makes the folder, finds the program and says how it is to be run. With an error, Home is
// set if there is one.
func (r *Executor) prepare(t *task) (s supervise.Spec, err error) {
	l, p := &t.launch, t.launch.Job.Run.Process
	rel, err := l.Task.Folder()
	if err != nil {
		return s, err
	}
	home := filepath.Join(r.cfg.Dir, rel)
	user, noUser := r.boxes.userOf(*l)
	s.Box = r.boxes.of(*l, home, user)
	kind := kindOf(user, s.Box)
	if err := r.freshFolder(home, kind); err != nil {
		return s, err
	}
	if !l.Job.Stdin {
		t.home, t.kind = home, kind
	} else if r.cfg.Stdin == nil {
		return s, reject(taskstate.ReasonStdin, "this peer passes no stdin on")
	} else if err := os.Mkdir(filepath.Join(home, supervise.InputFolder), 0o700); err != nil {
		return s, err
	}
	if err := r.lacks(l.Confinement); err != nil {
		return s, err
	}
	if noUser != nil {
		return s, noUser
	}
	s.Task, s.Home, s.Timeout = l.Task.String(), home, time.Duration(l.Job.Timeout)*time.Millisecond
	s.Stdin = l.Job.Stdin
	s.Cap, s.Newest = l.Job.MaxOutput, l.Job.Type.Lasts()
	work := filepath.Join(home, WorkName)
	if len(l.Job.Inputs) > 0 {
		if r.cfg.Inputs == nil {
			return s, reject(taskstate.ReasonPrepare, "this peer brings no inputs")
		}
		if err := r.cfg.Inputs.Place(t.life, *l, work, func(text string) { r.starting(t, text) }); err != nil {
			return s, err
		}
	}
	if s.Dir, err = workFolder(work, p); err != nil {
		return s, err
	}
	if err := hand(home, user); err != nil {
		return s, err
	}
	vars := coveyVars(*l)
	if l.Job.Secrets != nil {
		if s.Secrets, err = r.secrets(l, user, s.Box); err != nil {
			return s, err
		}
		vars = append(vars, [2]string{secretsVar, s.Secrets})
	}
	s.Env = environment(r.baseOf(s.Box, home, work), p.Env, vars)
	if s.Argv, err = arguments(p, vars, l.Job.RawItem(l.Item)); err != nil {
		return s, err
	}
	if s.Path = filepath.Join(work, p.ScriptFile()); len(p.Script) == 0 {
		s.Path, err = commandPath(&s)
	}
	return s, err
}

// commandPath is the file that a command names.
func commandPath(s *supervise.Spec) (string, error) {
	if len(s.Argv) == 0 {
		return "", reject(taskstate.ReasonNotFound, "the command is empty; name a program to run")
	}
	path, why := finder{path: getenv(s.Env, "PATH"), dir: s.Dir, home: s.Home, box: s.Box}.lookup(s.Argv[0])
	if why != nil {
		return "", why
	}
	return path, nil
}

// happened takes in what the keeper tells, from one goroutine at a time.
func (r *Executor) happened(e supervise.Event) {
	id, err := taskstate.ParseTaskID(e.Task)
	var t *task
	if err == nil {
		r.mu.Lock()
		if t = r.tasks[id]; t == nil && r.left != nil {
			r.left[id] = e // Adopt has not been asked yet
			r.mu.Unlock()
			return
		}
		if t == nil && e.Final() {
			r.departed(e.Task)
		}
		r.mu.Unlock()
	}
	switch {
	case t == nil && e.Final(): // told twice, or nobody's
		r.keeper.Ack([]string{e.Task})
	case t == nil:
	case e.Final():
		r.ended(t, e)
	default:
		r.show(t, e)
	}
}

// show reports a task as running, once.
func (r *Executor) show(t *task, e supervise.Event) {
	t.mu.Lock()
	again := t.shown
	t.shown = true
	t.mu.Unlock()
	if !again {
		r.cfg.Report(taskstate.RunReport{Task: t.launch.Task, State: taskstate.Running, Exit: taskstate.NoExit, At: e.At, Held: taskstate.Confined(e.Held)})
	}
}

// ended brings a task to its end. The keeper keeps that, too, until Kept.
func (r *Executor) ended(t *task, e supervise.Event) {
	t.mu.Lock()
	t.ended = true
	rep := classify(t, e)
	t.mu.Unlock()
	t.feed.end()
	r.drop(t)
	r.leave(t)
	if e.Kind == supervise.Ended && !e.Unbegun && !r.reusable(t, e) {
		r.watchLate(t, e)
	}
	rep.Task = t.launch.Task
	r.cfg.Report(rep)
}

// reusable offers the folder of a task that left nothing to a later one, and tells whether that is
// so. It comes after leave: a reader that still takes the task for a running one need not fear that
// the file is another's.
func (r *Executor) reusable(t *task, e supervise.Event) bool {
	return e.Alone && e.Sizes == [2]int64{} && t.home != "" && r.spare.offer(t.home, t.kind)
}

func (r *Executor) watchLate(t *task, e supervise.Event) {
	if rel, err := t.launch.Task.Folder(); err == nil {
		r.late.add(endedTask{at: time.Now(), task: t.launch.Task, home: filepath.Join(r.cfg.Dir, rel), sizes: e.Sizes})
	}
}

// finish ends a task that was not handed to the keeper.
func (r *Executor) finish(t *task, rep taskstate.RunReport) {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	r.leave(t)
	rep.Task = t.launch.Task
	r.cfg.Report(rep)
}

// leave tells who follows the output that it is complete. The end is reported after it, so that
// a reader that hears of the end can read it all.
func (r *Executor) leave(t *task) {
	r.forget(t.launch.Task)
	close(t.over)
}

// Kept says that the ends of these tasks are in the worker's journal, so that the supervisor may
// forget them.
func (r *Executor) Kept(tasks []taskstate.TaskID) {
	ids := make([]string, len(tasks))
	for i, id := range tasks {
		ids[i] = id.String()
	}
	r.keeper.Ack(ids)
}

// classify turns what became of a process, and what was asked of it, into an end. Called with t.mu
// held.
func classify(t *task, e supervise.Event) taskstate.RunReport {
	rep := taskstate.RunReport{Exit: e.Exit, Signal: e.Signal, At: e.At, Took: e.Took, Truncated: e.Cut[0] || e.Cut[1], Held: taskstate.Confined(e.Held)}
	if e.Signal != 0 || e.Kind != supervise.Ended || e.Unseen || e.Unbegun {
		rep.Exit = taskstate.NoExit
	}
	switch {
	case e.Kind == supervise.Refused:
		name, script := "the script", []byte(nil)
		if p := t.launch.Job.Run.Process; p != nil && len(p.Command) > 0 && len(p.Script) == 0 {
			name = p.Command[0]
		} else if p != nil {
			script = p.Script
		}
		why := startError(name, script, e.Cause())
		if supervise.TakesNothing(e.Cause()) {
			why = unprepared(e.Cause())
		} else if supervise.Exhausted(e.Cause()) {
			why = exhausted(cmp.Or(e.Err, e.Cause().Error()))
			if limitsProcesses(t.launch.Confinement) { // by which it may be refused them on a healthy machine
				why.exhausted = ""
			}
		}
		rep.State, rep.Reason, rep.Message, rep.Exhausted = taskstate.Rejected, why.reason, why.message, why.exhausted
	case e.Kind == supervise.Lost:
		rep.State, rep.Reason, rep.Message = taskstate.Orphaned, taskstate.ReasonInterrupted, lostMessage(e)
	case e.Timeout:
		rep.State, rep.Exit, rep.Reason, rep.Message = taskstate.Failed, taskstate.NoExit, taskstate.ReasonTimeout, t.launch.Job.TimedOut()
	case e.Unbegun:
		rep.State, rep.Reason, rep.Message = taskstate.Shutdown, taskstate.Reason(e.Reason), "stopped before it started"
	case e.Reason == supervise.ReasonInput:
		rep.State, rep.Reason, rep.Message = taskstate.Failed, taskstate.ReasonStdin, cmp.Or(t.starved, "stopped: its peer's disk did not give back what it was to read")
	case e.Reason == string(taskstate.ReasonInterrupted) && t.stop == "":
		rep.State, rep.Exit, rep.Signal, rep.Reason = taskstate.Orphaned, taskstate.NoExit, 0, taskstate.ReasonInterrupted
		rep.Message = "its supervisor was stopped, as at a shutdown of the machine, and stopped it"
	case e.Reason != "":
		rep.State, rep.Reason, rep.Message = taskstate.Shutdown, taskstate.Reason(e.Reason), "stopped: "+e.Reason
	case e.Unseen:
		rep.State, rep.Reason, rep.Message = taskstate.Orphaned, taskstate.ReasonInterrupted, "it ended, its exit code is unknown: "+e.Err
	case e.Lost() != nil:
		rep.State, rep.Reason, rep.Message = taskstate.Failed, taskstate.ReasonOutputLost, lostOutput(e)
	case e.Signal != 0:
		rep.State, rep.Reason = taskstate.Failed, taskstate.ReasonSignal
		rep.Message = fmt.Sprintf("ended by signal %d (%v)", e.Signal, syscall.Signal(e.Signal))
	case e.Exit != 0:
		rep.State, rep.Reason, rep.Message = taskstate.Failed, taskstate.ReasonExit, fmt.Sprintf("exit code %d", e.Exit)
	default:
		rep.State = taskstate.Complete
	}
	if rep.Truncated {
		rep.Message = strings.TrimPrefix(rep.Message+"; ", "; ") + truncated(e)
	}
	return rep
}

func truncated(e supervise.Event) string {
	names := supervise.Streams()
	which := names[0]
	switch {
	case e.Cut[0] && e.Cut[1]:
		which += " and " + names[1]
	case e.Cut[1]:
		which = names[1]
	}
	return "not all of its " + which + " was kept; --max-output SIZE keeps more"
}

// lostOutput says how a task ended whose output may not be whole.
func lostOutput(e supervise.Event) string {
	how := fmt.Sprintf("exit code %d", e.Exit)
	if e.Signal != 0 {
		how = fmt.Sprintf("signal %d", e.Signal)
	}
	return fmt.Sprintf("it ended (%s), but the disk of its peer may not have taken all of its output: %v", how, e.Lost())
}

const rebooted = "the machine was restarted while it ran"

func lostMessage(e supervise.Event) string {
	switch {
	case e.Rebooted:
		return rebooted
	case e.Err != "":
		return "its supervisor was killed: " + e.Err
	case e.Unbegun:
		return "its supervisor was killed before it started"
	}
	return "it ended while neither its peer nor its supervisor ran; its exit code was not observed"
}
