package process

import (
	"strings"
	"time"

	"covey/taskstate"
)

// noopAtOnce reports a no-op of no duration without ever listing it.
func (r *Runner) noopAtOnce(id taskstate.TaskID) {
	now := time.Now().UnixMilli()
	r.reports.add(running(id, now), complete(id, now))
}

// noop starts a no-op that takes its time: one entry in the heap. Called with r.mu held.
func (r *Runner) noop(t *task) {
	r.reports.add(running(t.launch.Task, time.Now().UnixMilli()))
	r.awaitNoop(t, 0)
}

// awaitNoop waits for the end of a no-op that has run for a while. Called with r.mu held.
func (r *Runner) awaitNoop(t *task, already time.Duration) {
	t.began = time.Now().Add(-already)
	d := time.Duration(t.launch.Job.Run.Noop.Duration) * time.Millisecond
	limit := time.Duration(t.launch.Job.Timeout) * time.Millisecond
	end := r.noopOver
	if limit > 0 && limit < d {
		d, end = limit, r.noopTimeout
	}
	t.waiting = r.clock.after(max(0, d-already), func() { end(t) })
}

// claim makes the caller the one that ends t.
func (t *task) claim() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	t.ended = true
	return true
}

func (r *Runner) noopOver(t *task) {
	if t.claim() {
		r.forget(t.launch.Task)
		rep := complete(t.launch.Task, time.Now().UnixMilli())
		rep.Took = t.took()
		r.reports.add(rep)
	}
}

func (r *Runner) noopTimeout(t *task) {
	if t.claim() {
		r.forget(t.launch.Task)
		r.endNoop(t, taskstate.Failed, taskstate.ReasonTimeout, timeoutMessage(t))
	}
}

func (r *Runner) stopNoop(t *task, reason taskstate.Reason) {
	if t.claim() {
		r.clock.stop(t.waiting)
		r.forget(t.launch.Task)
		r.endNoop(t, taskstate.Shutdown, reason, "stopped: "+string(reason))
	}
}

// endNoop reports the end of a no-op that was cut short.
func (r *Runner) endNoop(t *task, s taskstate.State, reason taskstate.Reason, message string) {
	r.report(taskstate.RunReport{Task: t.launch.Task, State: s, Exit: taskstate.NoExit, Reason: reason, Message: message, Took: t.took()})
}

// took is how long a no-op has been waiting, in milliseconds.
func (t *task) took() int64 { return time.Since(t.began).Milliseconds() }

func running(id taskstate.TaskID, at int64) taskstate.RunReport {
	return taskstate.RunReport{Task: id, State: taskstate.Running, Exit: taskstate.NoExit, At: at}
}

func complete(id taskstate.TaskID, at int64) taskstate.RunReport {
	return taskstate.RunReport{Task: id, State: taskstate.Complete, At: at}
}

func timeoutMessage(t *task) string {
	return "timed out after " + (time.Duration(t.launch.Job.Timeout) * time.Millisecond).String()
}

// cutMessage makes a message valid – a file's name may be any bytes – and as short as a status may
// carry, without tearing a character.
func cutMessage(s string) string {
	const mark = " […]"
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= taskstate.MaxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:taskstate.MaxMessage-len(mark)], "") + mark
}
