package ledger_test

import (
	"maps"
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func (d *dumb) lasting(c ledger.Command) {
	switch {
	case c.Renew != nil:
		d.renew(c.Renew)
	case c.Retire != nil:
		d.retire(c.Retire)
	case c.Grow != nil:
		d.grow(c.Grow)
	case c.Update != nil:
		d.update(c.Update)
	case c.Rollout != nil:
		d.roll(c.Rollout)
	case c.Skip != nil:
		j := d.job(c.Skip.Job)
		if j == nil || j.job.Schedule == nil || j.over || j.cancelled || c.Skip.At <= j.started() {
			return
		}
		j.skips = append(j.skips, ledger.Skipped{At: c.Skip.At, Run: c.Skip.Run, Stamp: d.stamp})
	case c.Kept != nil:
		d.keepers(c.Kept)
	case c.Avail != nil:
		if m := d.members[c.Avail.Peer]; m != nil && !m.removed {
			m.avail = c.Avail.Availability
			if m.avail == ledger.AvailActive {
				m.avail = ""
			}
		}
	case c.Label != nil:
		if m := d.members[c.Label.Peer]; m != nil && !m.removed {
			maps.Copy(m.labels, c.Label.Set)
			for _, k := range c.Label.Unset {
				m.labels[k] = ""
			}
		}
	}
}

// keepers changes who keeps what tasks left.
func (d *dumb) keepers(c *ledger.Kept) {
	for _, run := range c.Slots {
		for n := range run.All() {
			s := d.slot(taskstate.Task(c.Job, n, run.Attempt))
			if s == nil || s.final == nil || s.final.Saved == nil {
				continue
			}
			now, left := *s.final.Saved, []taskstate.PeerID{}
			for _, p := range now.Keepers {
				if p == c.Peer && !c.Not || p != c.Peer && !slices.Contains(c.Lost, p) {
					left = append(left, p)
				}
			}
			if !c.Not && !slices.Contains(left, c.Peer) {
				left = append(left, c.Peer)
			}
			if c.Not && !slices.Contains(c.Lost, c.Peer) && (len(left) < now.Keep || !slices.Contains(left, d.job(c.Job).job.Submitter)) {
				continue // it has to stay
			}
			now.Keepers = left
			if len(left) >= now.Keep {
				now.Why = ""
			} else if now.Why == "" {
				now.Why = "a copy was lost"
			}
			end := *s.final
			end.Saved, s.final = &now, &end
		}
	}
}

// picked lists the slots that runs mean, as they are now.
func (j *dumbJob) picked(runs []ledger.Slots) (out []int) {
	for _, r := range runs {
		for n := range r.All() {
			if n >= 1 && n <= len(j.slots) && (r.Attempt == 0 || j.slots[n-1].attempt == r.Attempt) {
				out = append(out, n-1)
			}
		}
	}
	return out
}

func (d *dumb) renew(c *ledger.Renew) {
	j := d.job(c.Job)
	if j == nil || j.job.Type.Lasts() && (j.cancelled || c.Version != 0 && j.version(c.Version) == nil) || j.cancelled && !j.over {
		return
	}
	if !j.job.Type.Lasts() && c.Version != 0 {
		return
	}
	for _, o := range d.jobs {
		unique := o.job.Type.Lasts() || o.job.Schedule != nil
		if j.over && j.job.Type.Lasts() && unique && !o.over && !o.cancelled && o.job.Name == j.job.Name {
			return
		}
	}
	picked := j.picked(c.Slots)
	if len(picked) == 0 || d.news(j, c.Seen) {
		return
	}
	j.moved = append(j.moved, d.index)
	if j.cancelled {
		picked = slices.DeleteFunc(picked, j.waited)
		d.lift(j)
	}
	for _, i := range picked {
		j.slots[i].renew(j, d.stamp, c)
	}
	j.forgiven = 0
	j.forgiven = j.failed()
	if !j.done() {
		j.over, j.ended = false, 0
	}
}

// waited tells whether a slot has its end because its job was cancelled while it waited.
func (j *dumbJob) waited(i int) bool {
	s := &j.slots[i]
	return s.final != nil && s.peer == "" && !s.retired
}

func (d *dumb) lift(j *dumbJob) {
	top, any := j.first, false
	for i, s := range j.slots {
		if j.waited(i) {
			top, any = max(top, s.attempt), true
		}
	}
	if any {
		j.first = top + 1
	}
	for i := range j.slots {
		s := &j.slots[i]
		if j.waited(i) {
			s.final, s.attempt = nil, j.first
		}
		if s.peer == "" && s.retired { // it has not begun either
			s.attempt = max(s.attempt, j.first)
			s.final.Task.Attempt = s.attempt
		}
	}
	j.cancelled, j.why, j.reason, j.over, j.ended = false, "", "", false, 0
}

func (s *dumbSlot) renew(j *dumbJob, now int64, c *ledger.Renew) {
	version := c.Version
	if version == 0 {
		version = s.version
	}
	switch {
	case s.open:
		s.leaving, s.retired, s.reason, s.next, s.notBefore = true, false, c.Reason, version, c.NotBefore
		return
	case s.final != nil:
		s.again(j, now, c.Reason, s.final)
	}
	if s.version != version {
		s.history = taskstate.History{}
	}
	s.version, s.notBefore = version, c.NotBefore
}

func (d *dumb) retire(c *ledger.Retire) {
	j := d.job(c.Job)
	if j == nil || j.cancelled || j.over || d.news(j, c.Seen) {
		return
	}
	for _, i := range j.picked(c.Slots) {
		s := &j.slots[i]
		if !s.retired {
			j.moved = append(j.moved, d.index)
		}
		switch {
		case s.retired || s.final != nil && !j.job.Type.Lasts():
			continue
		case s.open:
			s.leaving, s.next, s.notBefore = true, 0, 0
		case s.final == nil:
			s.notBefore, s.history = 0, taskstate.History{}
			s.final = &taskstate.Status{
				Task: taskstate.Task(j.job.ID, i+1, s.attempt), State: taskstate.Shutdown, At: d.stamp,
				Exit: taskstate.NoExit, Reason: c.Reason,
			}
		}
		s.retired, s.reason = true, c.Reason
	}
}

func (d *dumb) grow(c *ledger.Grow) {
	j := d.job(c.Job)
	if j == nil || !j.job.Type.Lasts() || j.cancelled || j.over || c.Version != 0 && j.version(c.Version) == nil {
		return
	}
	if c.First != 0 && c.First != len(j.slots)+1 || d.news(j, c.Seen) {
		return
	}
	had := len(j.slots)
	defer func() {
		if len(j.slots) > had {
			j.moved = append(j.moved, d.index)
		}
	}()
	version := c.Version
	if version == 0 {
		version = j.job.Version
	}
	for range c.N {
		j.slots = append(j.slots, dumbSlot{attempt: 1, version: version})
	}
	for _, p := range c.Peers {
		if !slices.ContainsFunc(j.slots, func(s dumbSlot) bool { return s.pin == p }) {
			j.slots = append(j.slots, dumbSlot{attempt: 1, version: version, pin: p})
		}
	}
}

func (j *dumbJob) version(v int) *taskstate.Job {
	spec, ok := j.specs[v]
	if !ok {
		return nil
	}
	return &spec
}

func (d *dumb) update(c *ledger.Update) {
	j := d.job(c.Job.ID)
	if j == nil || j.over || j.cancelled || !j.job.Type.Lasts() && j.job.Schedule == nil || c.From != 0 && c.From != j.job.Version {
		return
	}
	spec := c.Job
	spec.Version = j.job.Version
	if len(taskstate.Changes(&j.job, &spec)) == 0 {
		return
	}
	j.revised = append(j.revised, d.index)
	if j.job.Type.Lasts() && taskstate.Restarts(&j.job, &spec) {
		if j.previous == 0 || j.rollout != taskstate.RolloutUpdating && j.rollout != taskstate.RolloutPaused {
			j.previous = j.job.Version
		}
		spec.Version++
		j.rollout, j.message, j.since = taskstate.RolloutUpdating, "", d.stamp
		j.adopt(spec)
		return
	}
	j.job = spec
	if j.specs[spec.Version] = spec; !spec.Type.Lasts() {
		j.changed = d.stamp
	}
}

// adopt makes a spec the wanted version, and that of slots that are so already; what is of no use
// any more is dropped.
func (j *dumbJob) adopt(spec taskstate.Job) {
	for i := range j.slots {
		s := &j.slots[i]
		if old := j.version(s.version); !taskstate.Restarts(old, &spec) {
			s.version = spec.Version
		}
		if old := j.version(s.next); old != nil && !taskstate.Restarts(old, &spec) {
			s.next = spec.Version
		}
	}
	j.job = spec
	j.specs[spec.Version] = spec
	j.tidy()
}

func (j *dumbJob) tidy() {
	maps.DeleteFunc(j.specs, func(v int, _ taskstate.Job) bool {
		return v != j.job.Version && v != j.previous &&
			!slices.ContainsFunc(j.slots, func(s dumbSlot) bool { return s.version == v || s.next == v })
	})
}

func (d *dumb) roll(c *ledger.Rollout) {
	j := d.job(c.Job)
	if j == nil || j.over || j.cancelled || !j.job.Type.Lasts() || c.Version != 0 && c.Version != j.job.Version || d.news(j, c.Seen) {
		return
	}
	was := j.rollout
	switch {
	case was == taskstate.RolloutUpdating && (c.State == taskstate.RolloutPaused || c.State == taskstate.RolloutCompleted),
		was == taskstate.RolloutPaused && c.State == taskstate.RolloutUpdating,
		was == taskstate.RolloutRollingBack && (c.State == taskstate.RolloutRolledBack || c.State == taskstate.RolloutRollbackPaused),
		was == taskstate.RolloutRollbackPaused && c.State == taskstate.RolloutRollingBack,
		was == c.State && was != taskstate.RolloutNone:
		j.rollout = c.State
	case was == taskstate.RolloutRollingBack && c.State == taskstate.RolloutPaused, was == taskstate.RolloutRollbackPaused && c.State == taskstate.RolloutPaused:
		j.rollout = taskstate.RolloutRollbackPaused
	case was == taskstate.RolloutRollbackPaused && c.State == taskstate.RolloutUpdating, was == taskstate.RolloutRollingBack && c.State == taskstate.RolloutUpdating:
		j.rollout = taskstate.RolloutRollingBack
	case c.State == taskstate.RolloutRollingBack && j.previous != 0:
		spec := j.specs[j.previous]
		spec.Version = j.job.Version + 1
		j.revised = append(j.revised, d.index)
		j.previous, j.rollout, j.message, j.since = 0, taskstate.RolloutRollingBack, c.Message, d.stamp
		j.adopt(spec)
		return
	default:
		return
	}
	if j.rollout != was || c.Message != "" && c.Message != j.message {
		j.revised = append(j.revised, d.index)
	}
	if j.rollout != was {
		j.since, j.message = d.stamp, c.Message
	} else if c.Message != "" {
		j.message = c.Message
	}
}
