package sim

import "covey/taskstate"

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
	return j.keeps() || j.retried || len(j.job.Constraints) > 0 || j.job.Restart != nil || j.job.Delay > 0
}
