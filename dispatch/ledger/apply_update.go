package ledger

import (
	"bytes"
	"maps"
	"slices"

	"covey/taskstate"
)

func (s *State) update(c *Update) Result {
	j, ok := s.jobs[c.Job.ID]
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
	case !spec.Order.Next(j.job.Order): // somebody else's came in between
		return Result{Refused: CodeConflict, Version: j.job.Version}
	}
	if code := s.ordered(&spec); code != CodeNone {
		return Result{Refused: code, Version: j.job.Version}
	}
	if j.origin == nil {
		j.origin = jobDigest(j.job)
	}
	if !changed {
		j.adopt(&spec)
		return j.wants(nil)
	}
	if !j.Lasts() {
		j.starts.Since = s.stamp
	} else {
		j.long.revised = s.index
	}
	var same []int
	s.finished.needed.count(j.job, -1)
	if j.Lasts() && taskstate.Restarts(j.job, &spec) {
		same = j.newVersion(spec, s.stamp)
	} else {
		j.adopt(&spec)
	}
	s.finished.needed.count(j.job, 1)
	s.close(j) // with a lower count, nothing may be left to run
	return j.wants(same)
}

// newVersion begins a rollout. The version to roll back to is the one before, unless that never got
// so far: then it is the one before it.
func (j *JobRecord) newVersion(spec taskstate.Job, stamp int64) (same []int) {
	if !j.long.rollout.State.forward() || j.long.previous == 0 {
		j.long.previous = j.job.Version
	}
	spec.Version = j.job.Version + 1
	j.adopt(&spec)
	same = j.relabel()
	j.long.rollout = RolloutRecord{State: Updating, Since: stamp, Began: stamp}
	j.tidyVersions()
	return same
}

// wants is the result of a command that changed what is wanted of a job.
func (j *JobRecord) wants(same []int) Result {
	r := Result{Version: j.job.Version, Now: j.outline()}
	r.Now.Same = same
	return r
}

// forward tells whether a version is being rolled out that nobody knows to be good.
func (s RolloutState) forward() bool { return s == Updating || s == Paused }

// adopt makes a spec the wanted one.
func (j *JobRecord) adopt(spec *taskstate.Job) {
	j.job = spec
	if j.long != nil {
		j.long.versions[spec.Version] = spec
	}
}

// relabel counts slots that do already what the wanted version wants as slots of that version:
// after a way back, for instance.
func (j *JobRecord) relabel() []int {
	same := map[int]bool{}
	for v, spec := range j.long.versions {
		if v != j.job.Version && !taskstate.Restarts(spec, j.job) {
			same[v] = true
		}
	}
	for n := 1; n <= j.slots.count; n++ {
		x := j.slots.extrasOf(n)
		if same[j.slots.version(x)] {
			x.Version = uint32(j.job.Version)
		}
		if same[int(x.Next)] {
			x.Next = uint32(j.job.Version)
		}
		j.slots.putExtras(n, x)
	}
	return slices.Sorted(maps.Keys(same))
}

// tidyVersions drops the specs that no slot is of and that nobody can go back to.
func (j *JobRecord) tidyVersions() {
	used := map[int]bool{j.job.Version: true, j.long.previous: true}
	for n := 1; n <= j.slots.count; n++ {
		x := j.slots.extrasOf(n)
		used[j.slots.version(x)], used[int(x.Next)] = true, true
	}
	for v := range j.long.versions {
		if !used[v] {
			delete(j.long.versions, v)
		}
	}
}

// rolloutMoves says what becomes of a rollout (the first key) that is told to be as the second key
// says.
func rolloutMoves() map[RolloutState]map[RolloutState]RolloutState {
	return map[RolloutState]map[RolloutState]RolloutState{
		Updating:       {Updating: Updating, Paused: Paused, Completed: Completed},
		Paused:         {Paused: Paused, Updating: Updating},
		RollingBack:    {RollingBack: RollingBack, Updating: RollingBack, Paused: RollbackPaused, RollbackPaused: RollbackPaused, RolledBack: RolledBack},
		RollbackPaused: {RollbackPaused: RollbackPaused, Paused: RollbackPaused, RollingBack: RollingBack, Updating: RollingBack},
		Completed:      {Completed: Completed},
		RolledBack:     {RolledBack: RolledBack},
	}
}

func (s *State) rollout(c *Rollout) Result {
	j, ok := s.jobs[c.Job]
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
	if j.long.unknown(c.Seen, s.index) {
		return Result{Refused: CodeConflict, Version: j.job.Version}
	}
	now := &j.long.rollout
	to, ok := rolloutMoves()[now.State][c.State]
	switch {
	case !ok && c.State == RollingBack && j.long.previous == 0:
		return Result{Refused: CodeUnknown, Version: j.job.Version} // there is nothing to go back to
	case !ok && c.State == RollingBack:
		j.long.revised = s.index
		s.finished.needed.count(j.job, -1)
		same := j.rollBack(c.Message, s.stamp)
		s.finished.needed.count(j.job, 1)
		return j.wants(same)
	case !ok:
		return Result{Refused: CodeConflict, Version: j.job.Version}
	case to == now.State && (c.Message == "" || c.Message == now.Message):
		return Result{Existed: true, Version: j.job.Version}
	}
	j.long.revised = s.index
	if to != now.State {
		now.State, now.Since = to, s.stamp
	}
	now.Message, now.Failed = c.Message, c.Failed
	j.tidyVersions()
	s.close(j)
	return j.wants(nil)
}

// rollBack makes the spec before the wanted one again, under a new number: attempts of the version
// in between stay told apart. There is no way back from there: a rollback is never rolled back.
func (j *JobRecord) rollBack(message string, stamp int64) (same []int) {
	spec := *j.long.versions[j.long.previous]
	spec.Version = j.job.Version + 1
	j.adopt(&spec)
	j.long.previous = 0
	same = j.relabel()
	j.long.rollout = RolloutRecord{State: RollingBack, Message: message, Since: stamp, Began: stamp}
	j.tidyVersions()
	return same
}
