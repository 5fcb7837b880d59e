package sim

import (
	"errors"

	"covey/taskstate"
)

var errFull = errors.New("the disk is full")

// fullDisk fills up a peer's disk: it takes nothing more, and what tasks write there may be lost.
func (w *world) fullDisk() {
	p := w.anyone()
	heal := w.hurt(p)
	p.filled++
	p.sayFull()
	w.until(w.spell(), func() {
		p.filled--
		p.sayFull()
		heal()
	})
}

// sayFull tells the worker how the disk stands.
func (p *peer) sayFull() {
	l := p.life
	if l == nil || l.worker == nil || p.w.cfg.Break == BreakFill {
		return
	}
	if p.filled > 0 {
		l.worker.Refrain(errFull, p.wall())
	} else {
		l.worker.Refrain(nil, p.wall())
	}
}

// maxLost is how often a slot is tried again because its output was lost: by one coordinator.
const maxLost = 3

// output takes from a task's end what a full disk took of its output.
func (p *peer) output(r *proc, rep *taskstate.RunReport) {
	w := p.w
	if p.filled == 0 || !w.chance(0.3) {
		return
	}
	rep.State, rep.Reason = taskstate.Failed, taskstate.ReasonOutputLost
	if w.cfg.Break == BreakBlame {
		rep.Reason = taskstate.ReasonExit
	}
	w.check.lost[slotOf(r.launch.Task)]++
}

// outputLost is I1 for such an end: it stands if the task must not run twice, or if it was tried
// often enough.
func (c *check) outputLost(j *work, id taskstate.TaskID, final *taskstate.Status) {
	n := c.lost[slotOf(id)]
	if n == 0 || final.State != taskstate.Failed || j.job.Unreachable.Wait {
		return
	}
	if rep := c.outcomes[id]; rep.Exit == 0 && n <= maxLost {
		c.w.fail("I1", "%s ended as failed (%s): its peer's disk was full, %d times, and that is no fault of its own", id, final.Reason, n)
	}
}
