package jobfile

import "github.com/coveyproject/covey/taskstate"

// byType refuses what makes no sense for a job's type. Each refusal says why and what to do
// instead.
func (ps *checks) byType(j *taskstate.Job) {
	switch j.Type {
	case taskstate.BatchJob:
		if len(j.Matrix) == 0 { // which says how many there must be
			ps.between("count", int64(j.Count), 1, MaxCount)
		}
		if j.Update != nil {
			ps.bad("update", "it is for service and global jobs, which are replaced while they run; a batch job is submitted again")
		}
		if j.Version != 0 {
			ps.bad("version", "only service and global jobs have versions")
		}
	case taskstate.ServiceJob:
		ps.between("count", int64(j.Count), 0, MaxCount)
		ps.lasting(j)
	case taskstate.GlobalJob:
		if j.Count != 0 {
			ps.bad("count", "a global job has one task on each peer that fits; leave the key out, or take type: service")
		}
		ps.global(j)
		ps.lasting(j)
	default:
		ps.bad("type", "allowed is batch, service, global, got %q", clip(string(j.Type)))
	}
}

// lasting refuses what only makes sense for tasks that end by themselves.
func (ps *checks) lasting(j *taskstate.Job) {
	refuse := func(field string, given bool, why string) {
		if given {
			ps.bad(field, "a %s job %s", j.Type, why)
		}
	}
	const alike = "has tasks that are all alike, so that any of them may be moved or stopped; let each look up its work by COVEY_SLOT, or take type: batch"
	refuse("each", len(j.Each) > 0, alike)
	refuse("array", j.Numbered, alike)
	refuse("matrix", len(j.Matrix) > 0, alike)
	refuse("timeout", j.Timeout != 0, "runs until it is cancelled; a timeout would fail every task in turn. End it from within, or take type: batch")
	refuse("parallel", j.Parallel != 0, "has all its tasks running at once; set count, or update.parallelism for updates")
	refuse("delay", j.Delay != 0, "has all its tasks running at once; update.delay spaces its updates")
	refuse("max_fails", j.MaxFails != 0, "goes on whatever fails; limit restart.attempts, or take type: batch")
	refuse("schedule", j.Schedule != nil, "runs all the time; only a batch job has a schedule")
	const never = "has tasks that do not end by themselves, and files are kept when a task has ended; take type: batch, or let them put their files where they belong"
	refuse("outputs", j.Outputs != nil && len(j.Outputs.Globs) > 0, never)
	refuse("keep", j.Outputs != nil && len(j.Outputs.Globs) == 0, never)
	refuse("keep_logs", j.KeepLogs != 0, never)
	ps.between("version", int64(j.Version), 0, 1<<31-1)
}

// global refuses what chooses between peers, for a job that is on each.
func (ps *checks) global(j *taskstate.Job) {
	const each = "a global job has one task on each peer that fits, so there is nothing to choose; leave the key out, or take type: service"
	for _, x := range []struct {
		field string
		given bool
	}{{"placement.strategy", j.Strategy != ""}, {"placement.over", j.Over != ""}, {"placement.max_per_peer", j.MaxPerPeer != 0}} {
		if x.given {
			ps.bad(x.field, each)
		}
	}
	if j.Update != nil && j.Update.Order == taskstate.StartFirst {
		ps.bad("update.order", "a global job has one task on each peer, so the old one must stop first; expected stop-first")
	}
}
