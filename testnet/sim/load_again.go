package sim

import (
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// whim is what people want now and then of what has failed, of single tasks, and of services that
// are spread badly.
func (d *load) whim() {
	w := d.w
	if w.calm {
		return
	}
	w.after(w.ms(500, 2*d.pace), d.whim)
	switch n := w.rng.IntN(10); {
	case n < 4:
		d.some(len(d.jobs), d.retry)
	case n < 8:
		d.some(12, d.cancelTask)
	default:
		d.some(len(d.jobs), d.rebalance)
	}
}

// some looks for a job, of a few drawn among the newest, of which something can be wanted.
func (d *load) some(newest int, want func(*work, *ledger.JobRecord) bool) {
	newest = min(newest, len(d.jobs))
	for range min(8, newest) {
		j := d.jobs[len(d.jobs)-1-d.w.rng.IntN(newest)]
		if rec, ok := d.w.quorum.truth.Job(j.job.ID); ok && j.acked && !j.giant && j.cancels == 0 && j.retries == 0 && want(j, rec) {
			return
		}
	}
}

// retry has what ended badly run again, also where the job is over or was cancelled. Nobody cancels
// a job meanwhile.
func (d *load) retry(j *work, rec *ledger.JobRecord) bool {
	var slots []ledger.Slots
	for n := 1; n <= rec.Slots(); n++ {
		if s := rec.Slot(n); s.Final != nil && !s.Retired && s.Final.State != taskstate.Complete {
			slots = append(slots, ledger.Slots{First: n, N: 1, Attempt: s.Attempt})
		}
	}
	if len(slots) == 0 {
		return false
	}
	j.retries++
	d.tell(j, func() ledger.Command {
		if d.w.cfg.Break == BreakNoRetry {
			return ledger.Command{Lead: &ledger.Lead{Chain: true}}
		}
		return ledger.Command{Renew: &ledger.Renew{Job: j.job.ID, Slots: slots, Reason: taskstate.ReasonRetried}}
	}, func(r ledger.Result) {
		j.retries--
		if r.Refused == ledger.CodeNone {
			for _, run := range slots {
				d.w.check.promised[slot{j.job.ID, run.First}] = run.Attempt
			}
		}
	})
	return true
}

// cancelTask ends one task of a batch job for good.
func (d *load) cancelTask(j *work, rec *ledger.JobRecord) bool {
	if rec.Slots() == 0 || j.keeps() {
		return false
	}
	s := rec.Slot(d.w.between(1, rec.Slots()))
	if s.Final != nil || s.Retired {
		return false
	}
	d.tell(j, func() ledger.Command {
		if d.w.cfg.Break == BreakKeepTask {
			return ledger.Command{Lead: &ledger.Lead{Chain: true}}
		}
		return ledger.Command{Retire: &ledger.Retire{
			Job: j.job.ID, Slots: []ledger.Slots{{First: s.Slot, N: 1, Attempt: s.Attempt}}, Reason: taskstate.ReasonCancelled,
		}}
	}, func(r ledger.Result) {
		if r.Refused == ledger.CodeNone {
			d.w.check.taskCancelled(taskstate.Task(j.job.ID, s.Slot, s.Attempt))
		}
	})
	return true
}

// rebalance has the tasks of a service moved that the coordinator finds badly placed.
func (d *load) rebalance(j *work, _ *ledger.JobRecord) bool {
	if j.job.Type != taskstate.ServiceJob {
		return false
	}
	d.tell(j, func() ledger.Command {
		again := &ledger.Renew{Job: j.job.ID, Reason: taskstate.ReasonMoved}
		if l := d.w.quorum.leader; l != nil && l.term != nil {
			moves, _ := l.term.core.Rebalance(j.job.ID)
			d.w.check.moves(j.job.ID, moves)
			for _, m := range moves {
				again.Slots = append(again.Slots, ledger.Slots{First: m.Slot, N: 1, Attempt: m.Attempt})
			}
		}
		return ledger.Command{Renew: again} // of nothing: refused
	}, nil)
	return true
}

// unhurried postpones a cancel as long as the same job is being retried.
func (d *load) unhurried(j *work) bool {
	if j.retries == 0 {
		return false
	}
	d.w.after(time.Second, func() { d.cancel(j) })
	return true
}

// policies draws what batch jobs can say about failures, other jobs and places.
func (d *load) policies(j *work) {
	w := d.w
	if !w.chance(0.4) {
		return
	}
	job := &j.job
	job.Priority, job.MaxFails = w.between(0, 100), pick(w, 0, 0, 1, 3)
	switch w.between(0, 3) {
	case 0:
		if job.Count > 100 { // one in ten of its tasks fails: enough to have every peer passed over
			break
		}
		job.Restart = &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: w.between(1, 3), Delay: pick(w, int64(0), 500, 3000), Window: pick(w, int64(0), 0, 10_000)}
	case 1:
		if !job.Unreachable.Wait && job.Parallel == 0 && job.Count < 100 {
			job.Restart = &taskstate.Restart{Condition: taskstate.RestartAny, Attempts: w.between(1, 2), Delay: pick(w, int64(0), 500)}
		}
	case 2:
		job.Constraints = []string{pick(w, "peer.label.zone == a", "peer.label.zone != b")}
		job.Resources, job.MaxPerPeer = taskstate.Resources{MilliCPU: pick(w, int64(0), 200)}, 0
		job.Run.Noop.Duration = min(job.Run.Noop.Duration, 500)
	}
	if job.Count <= 20 && w.chance(0.2) {
		job.Delay = pick(w, int64(50), 400)
	}
	for _, before := range d.jobs[max(0, len(d.jobs)-8):] {
		if before.acked && !before.keeps() && !before.giant && len(job.After) < 2 && w.chance(0.2) {
			job.After = append(job.After, before.job.ID)
		}
	}
}

// particular tells whether the job's tasks may wait although there is room.
func (j *work) particular() bool {
	return j.keeps() || j.retried || len(j.job.Inputs) > 0 || len(j.job.Constraints) > 0 || j.job.Restart != nil || j.job.Delay > 0
}
