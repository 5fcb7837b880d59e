package process

import (
	"time"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// takeNote sorts what an earlier life left.
func (r *Executor) takeNote() {
	var strange []string
	r.mu.Lock()
	for _, e := range r.keeper.Left() {
		id, err := taskstate.ParseTaskID(e.Task)
		if err != nil {
			strange = append(strange, e.Task)
			continue
		}
		if newer := r.left[id]; !newer.Final() {
			r.left[id] = e
		}
	}
	r.mu.Unlock()
	r.keeper.Ack(strange)
}

// Adopt is called once, before anything is started, with the tasks that an earlier life of this
// peer may have started and not seen the end of. Those that still run are taken up again – they are
// reported, stopped and followed like any other – and those that ended meanwhile are reported with
// what is known of their end. It returns the others. What an earlier life left besides is stopped.
func (r *Executor) Adopt(tasks []taskstate.Launch) (lost []taskstate.Loss) {
	gone := make(map[string]bool)
	over := make(map[*task]supervise.Event)
	r.mu.Lock()
	left := r.left
	r.left = nil // from here on, what happens to a task is for the task
	for _, l := range tasks {
		e, known := left[l.Task]
		delete(left, l.Task)
		switch {
		case known:
			t := &task{launch: l, over: make(chan struct{}), sent: true}
			r.tasks[l.Task] = t
			if e.Final() {
				over[t] = e
			} else {
				r.show(t, e)
				r.feedOn(t)
			}
		default:
			gone[l.Task.String()] = true
			lost = append(lost, r.lossOf(l.Task))
		}
	}
	dismissed := r.expect(left) // with r.mu held since r.left is gone: no end is missed
	r.mu.Unlock()
	for t, e := range over {
		r.ended(t, e)
	}
	r.dismiss(left, dismissed)
	r.sweepSecrets()
	if len(gone) > 0 && !r.cfg.Copied {
		if n := supervise.KillTasks(gone); n > 0 {
			r.cfg.Log.Info("killed what an earlier life left running", "killed", n)
		}
	}
	return lost
}

// lossOf says what is known of a task that the keeper knows nothing of.
func (r *Executor) lossOf(id taskstate.TaskID) taskstate.Loss {
	if r.cfg.Copied {
		return taskstate.Loss{Task: id, Message: "this peer's data folder was copied or moved while it ran; its end was not observed"}
	}
	if r.keeper.Complete() {
		return taskstate.Loss{Task: id, Never: true}
	}
	if r.keeper.Rebooted() {
		return taskstate.Loss{Task: id, Message: rebooted}
	}
	return taskstate.Loss{Task: id, Message: "this peer, or its machine, was restarted while it ran; its end was not observed"}
}

// dismiss ends what nobody asks for any more, and waits until it has ended: it may be given to
// others, or here, as soon as Adopt returns.
func (r *Executor) dismiss(left map[taskstate.TaskID]supervise.Event, gone <-chan struct{}) {
	var over []string
	running := 0
	for id, e := range left {
		if e.Final() {
			over = append(over, id.String())
			continue
		}
		running++
		r.keeper.Stop(id.String(), string(taskstate.ReasonCancelled))
	}
	r.keeper.Ack(over)
	if running == 0 {
		return
	}
	patience := time.NewTimer(r.cfg.Grace + dismissWait)
	defer patience.Stop()
	select {
	case <-gone:
	case <-patience.C:
		r.cfg.Log.Warn("tasks of an earlier life do not end", "tasks", running)
	}
}

// expect begins to wait for the ends of those that still run. Called with r.mu held.
func (r *Executor) expect(left map[taskstate.TaskID]supervise.Event) <-chan struct{} {
	d := &dismissed{left: make(map[string]bool), gone: make(chan struct{})}
	for id, e := range left {
		if !e.Final() {
			d.left[id.String()] = true
		}
	}
	if len(d.left) > 0 {
		r.strange = d
	}
	return d.gone
}

// dismissWait is how long Adopt waits, beyond the grace, for processes that nobody asks for.
const dismissWait = 5 * time.Second

// dismissed is what Adopt waits for; r.mu guards it.
type dismissed struct {
	left map[string]bool
	gone chan struct{}
}

// departed notes that a task nobody asked for has ended. Called with r.mu held.
func (r *Executor) departed(task string) {
	d := r.strange
	if d == nil || !d.left[task] {
		return
	}
	delete(d.left, task)
	if len(d.left) == 0 {
		close(d.gone)
		r.strange = nil
	}
}
