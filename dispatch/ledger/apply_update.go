package ledger

import (
	"bytes"
	"maps"
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

func (b *jobTable) update(c *Update, w *Warrants) Result {
	j, ok := b.jobs[c.Job.ID]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case c.From != 0 && c.From != j.job.Version:
		return Result{Refused: CodeConflict, Version: j.job.Version}
	}
	spec := c.Job
	spec.Version, spec.Submitter, spec.Origin = j.job.Version, j.job.Submitter, j.job.Origin
	if spec.Type != j.job.Type || spec.Name != j.job.Name || (spec.Schedule != nil) != j.Scheduled() || !submittable(&spec) {
		return Result{Refused: CodeInvalid}
	}
	changed := len(taskstate.Changes(j.job, &spec)) > 0
	renews := !changed && spec.Order != nil // whose order is renewed may be over, and tried again
	switch {
	case !renews && (j.over || j.cancelled):
		return Result{Refused: CodeOver}
	case !renews && !j.Lasts() && !j.Scheduled():
		return Result{Refused: CodeInvalid}
	case !changed && bytes.Equal(spec.Order.Digest(), j.job.Order.Digest()):
		return Result{Existed: true, Version: j.job.Version}
	case !spec.Order.Next(j.job.Order), j.turnedFrom(spec.Order): // somebody else's came in between, or it counted before
		return Result{Refused: CodeConflict, Version: j.job.Version}
	}
	if code := w.ordered(&spec); code != CodeNone {
		return Result{Refused: code, Version: j.job.Version}
	}
	if j.origin == nil {
		j.origin = j.job.SubmissionDigest()
	}
	if !changed {
		j.adopt(&spec)
		r := j.wants(nil)
		r.Signed = true
		return r
	}
	if !j.Lasts() {
		j.starts.Since = b.head.stamp
	} else {
		j.long.revised = b.head.index
	}
	var same []int
	b.finished.needed.count(j.job, -1)
	if j.Lasts() && taskstate.Restarts(j.job, &spec) {
		same = j.turnTo(spec, j.long.goodBefore(j.job.Version), RolloutRecord{State: taskstate.RolloutUpdating, Since: b.head.stamp, Began: b.head.stamp})
	} else {
		j.adopt(&spec)
	}
	b.finished.needed.count(j.job, 1)
	b.close(j) // with a lower count, nothing may be left to run
	return j.wants(same)
}

// turnedFrom tells whether an order is as old as one that a way back has turned from. After it the
// order of before counts again, and what followed on that once would follow on it again.
func (j *JobRecord) turnedFrom(o *taskstate.Order) bool {
	return o != nil && j.long != nil && o.At <= j.long.turned
}

// turnTo makes a spec the wanted one, under a new number, and begins a rollout of it. The slots of
// versions that are listed do what it wants already.
func (j *JobRecord) turnTo(spec taskstate.Job, back int, r RolloutRecord) (same []int) {
	spec.Version = j.job.Version + 1
	j.adopt(&spec)
	same = j.long.like(&spec)
	j.slots.relabel(same, spec.Version)
	j.long.previous, j.long.rollout = back, r
	j.long.tidy(spec.Version, &j.slots)
	return same
}

// wants is the result of a command that changed what is wanted of a job.
func (j *JobRecord) wants(same []int) Result {
	r := Result{Version: j.job.Version, Now: j.outline()}
	r.Now.Same = same
	return r
}

// forward tells whether a version is being rolled out that nobody knows to be good.
func forward(s taskstate.RolloutState) bool {
	return s == taskstate.RolloutUpdating || s == taskstate.RolloutPaused
}

// adopt makes a spec the wanted one.
func (j *JobRecord) adopt(spec *taskstate.Job) {
	j.job = spec
	if j.long != nil {
		j.long.versions[spec.Version] = spec
	}
}

// like lists the other versions, ascending, whose slots do already what a spec wants: after a way
// back, for instance.
func (l *long) like(wanted *taskstate.Job) (same []int) {
	for v, spec := range l.versions {
		if v != wanted.Version && !taskstate.Restarts(spec, wanted) {
			same = append(same, v)
		}
	}
	slices.Sort(same)
	return same
}

// relabel counts slots of some versions as slots of another one.
func (t *slotTable) relabel(versions []int, to int) {
	for n := 1; n <= t.count; n++ {
		x := t.extrasOf(n)
		if slices.Contains(versions, t.version(x)) {
			x.Version = uint32(to)
		}
		if slices.Contains(versions, int(x.Next)) {
			x.Next = uint32(to)
		}
		t.putExtras(n, x)
	}
}

// goodBefore is the version to roll back to if one after version now turns out to be bad: now,
// unless that never got so far; then it is the one before it.
func (l *long) goodBefore(now int) int {
	if forward(l.rollout.State) && l.previous != 0 {
		return l.previous
	}
	return now
}

// tidy drops the specs that no slot is of, that are not wanted and that nobody can go back to.
func (l *long) tidy(wanted int, t *slotTable) {
	used := map[int]bool{wanted: true, l.previous: true}
	for n := 1; n <= t.count; n++ {
		x := t.extrasOf(n)
		used[t.version(x)], used[int(x.Next)] = true, true
	}
	maps.DeleteFunc(l.versions, func(v int, _ *taskstate.Job) bool { return !used[v] })
}

// rolloutMoves says what becomes of a rollout (the first key) that is told to be as the second key
// says.
func rolloutMoves() map[taskstate.RolloutState]map[taskstate.RolloutState]taskstate.RolloutState {
	const (
		updating, paused, completed             = taskstate.RolloutUpdating, taskstate.RolloutPaused, taskstate.RolloutCompleted
		rollingBack, rollbackPaused, rolledBack = taskstate.RolloutRollingBack, taskstate.RolloutRollbackPaused, taskstate.RolloutRolledBack
	)
	return map[taskstate.RolloutState]map[taskstate.RolloutState]taskstate.RolloutState{
		updating:       {updating: updating, paused: paused, completed: completed},
		paused:         {paused: paused, updating: updating},
		rollingBack:    {rollingBack: rollingBack, updating: rollingBack, paused: rollbackPaused, rollbackPaused: rollbackPaused, rolledBack: rolledBack},
		rollbackPaused: {rollbackPaused: rollbackPaused, paused: rollbackPaused, rollingBack: rollingBack, updating: rollingBack},
		completed:      {completed: completed},
		rolledBack:     {rolledBack: rolledBack},
	}
}

func (b *jobTable) rollout(c *Rollout) Result {
	j, ok := b.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.over || j.cancelled:
		return Result{Refused: CodeOver}
	case j.long == nil:
		return Result{Refused: CodeInvalid}
	case c.Version != 0 && c.Version != j.job.Version:
		return Result{Refused: CodeConflict, Version: j.job.Version}
	}
	if j.long.unknown(c.Seen, b.head.index) {
		return Result{Refused: CodeConflict, Version: j.job.Version}
	}
	now := &j.long.rollout
	to, ok := rolloutMoves()[now.State][c.State]
	switch {
	case !ok && c.State == taskstate.RolloutRollingBack && j.long.previous == 0:
		return Result{Refused: CodeUnknown, Version: j.job.Version} // there is nothing to go back to
	case !ok && c.State == taskstate.RolloutRollingBack:
		j.long.revised = b.head.index
		b.finished.needed.count(j.job, -1)
		// Under a new number: attempts of the version in between stay told apart. There is no way
		// back from there: a rollback is never rolled back.
		if o := j.job.Order; o != nil {
			j.long.turned = max(j.long.turned, o.At)
		}
		to := RolloutRecord{State: taskstate.RolloutRollingBack, Message: c.Message, Since: b.head.stamp, Began: b.head.stamp}
		same := j.turnTo(*j.long.versions[j.long.previous], 0, to)
		b.finished.needed.count(j.job, 1)
		return j.wants(same)
	case !ok:
		return Result{Refused: CodeConflict, Version: j.job.Version}
	case to == now.State && (c.Message == "" || c.Message == now.Message):
		return Result{Existed: true, Version: j.job.Version}
	}
	j.long.revised = b.head.index
	if to != now.State {
		now.State, now.Since = to, b.head.stamp
	}
	now.Message, now.Failed = c.Message, c.Failed
	j.long.tidy(j.job.Version, &j.slots)
	b.close(j)
	return j.wants(nil)
}
