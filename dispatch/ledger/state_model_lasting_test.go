package ledger_test

import (
	"fmt"
	"maps"
	"slices"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// dumbLasting is what the twin's jobs have because of services, dependencies, restarts and schedules.
type dumbLasting struct {
	why      taskstate.Reason
	over     bool
	blocked  []taskstate.JobID
	lastRun  int64
	forgiven int
	first    int
	specs    map[int]taskstate.Job
	previous int
	rollout  ledger.RolloutState
	message  string
	since    int64
}

func (d *dumb) submit(job taskstate.Job) {
	lasts := job.Type.Lasts()
	if d.job(job.ID) != nil {
		return
	}
	for _, j := range d.jobs {
		unique := j.job.Type.Lasts() || j.job.Schedule != nil
		if unique && !j.over && !j.cancelled && j.job.Name == job.Name && (lasts || job.Schedule != nil) {
			return
		}
	}
	for _, id := range job.After {
		if d.job(id) == nil {
			return
		}
	}
	if o := job.Origin; o != nil {
		parent := d.job(o.Job)
		if parent == nil || parent.cancelled || o.At <= parent.lastRun {
			return
		}
		parent.lastRun = o.At
	}
	j := &dumbJob{job: job, by: d.by + " " + d.epoch.String()}
	j.first = 1
	j.specs = map[int]taskstate.Job{}
	if lasts {
		j.job.Version = 1
		j.specs[1] = j.job
	}
	if job.Schedule == nil {
		for range job.Count {
			j.slots = append(j.slots, dumbSlot{attempt: 1, version: j.job.Version})
		}
	}
	d.jobs = append(d.jobs, j)
	for _, id := range job.After {
		switch before := d.job(id); {
		case before.over && before.state() != taskstate.Complete:
			d.stop(j, taskstate.ReasonAfter, "")
			return
		case !before.over:
			j.blocked = append(j.blocked, id)
		}
	}
}

// stop cancels a job.
func (d *dumb) stop(j *dumbJob, why taskstate.Reason, message string) {
	j.cancelled, j.why, j.reason, j.at, j.blocked = true, why, message, d.stamp, nil
	for i := range j.slots {
		s := &j.slots[i]
		if !s.retired {
			s.leaving, s.next, s.notBefore, s.history, s.reason = false, 0, 0, taskstate.History{}, ""
		}
		if !s.open && s.final == nil {
			s.final = &taskstate.Status{
				Task: taskstate.Task(j.job.ID, i+1, s.attempt), State: taskstate.Shutdown, At: d.stamp,
				Exit: taskstate.NoExit, Reason: why, Message: message,
			}
		}
	}
}

// settleDown ends jobs that are done, and what follows from it, until nothing more does.
func (d *dumb) settleDown() {
	for again := true; again; {
		again = false
		for _, j := range d.jobs {
			switch {
			case j.over:
			case j.done():
				j.over, j.ended, j.blocked, again = true, d.stamp, nil, true
			case !j.cancelled && j.job.MaxFails > 0 && j.failed() >= j.job.MaxFails:
				d.stop(j, taskstate.ReasonMaxFails, fmt.Sprintf("%d tasks failed (max_fails: %d)", j.failed(), j.job.MaxFails))
				again = true
			}
			for _, id := range slices.Clone(j.blocked) {
				before := d.job(id)
				switch {
				case !before.over || len(j.blocked) == 0:
				case before.state() == taskstate.Complete:
					j.blocked = slices.DeleteFunc(j.blocked, func(x taskstate.JobID) bool { return x == id })
				default:
					d.stop(j, taskstate.ReasonAfter, "")
					again = true
				}
			}
		}
	}
}

func (j *dumbJob) done() bool {
	wanted := 0
	for _, s := range j.slots {
		if s.final == nil {
			return false
		}
		if !s.retired {
			wanted++
		}
	}
	switch {
	case j.job.Schedule != nil, j.cancelled:
		return j.cancelled
	case !j.job.Type.Lasts():
		return true
	}
	busy := j.rollout == ledger.Updating || j.rollout == ledger.Paused || j.rollout == ledger.RollingBack || j.rollout == ledger.RollbackPaused
	return wanted > 0 && wanted >= j.job.Count && !busy
}

func (j *dumbJob) failed() (n int) {
	for _, s := range j.slots {
		if s.final != nil && !s.retired && (s.final.State == taskstate.Failed || s.final.State == taskstate.Rejected) {
			n++
		}
	}
	return n - j.forgiven
}

// state is how a job ended, as far as others that wait for it care.
func (j *dumbJob) state() taskstate.State {
	if j.cancelled && (j.job.Type.Lasts() || j.job.Schedule != nil) || j.why == taskstate.ReasonMaxFails {
		return taskstate.Failed
	}
	wanted := 0
	for _, s := range j.slots {
		if !s.retired {
			wanted++
			if s.final == nil || s.final.State != taskstate.Complete {
				return taskstate.Failed
			}
		}
	}
	if wanted == 0 {
		return taskstate.Failed
	}
	return taskstate.Complete
}

func (s *dumbSlot) rest(st taskstate.Status) {
	s.open, s.final = false, &st
	s.leaving, s.next, s.notBefore, s.history = false, 0, 0, taskstate.History{}
	if !s.retired {
		s.reason = ""
	}
}

// again has a slot wait for its next attempt.
func (s *dumbSlot) again(j *dumbJob, now int64, why taskstate.Reason, end *taskstate.Status) {
	was := *s
	*s = dumbSlot{
		attempt: max(was.attempt+1, j.first), past: was.past, version: was.version, pin: was.pin,
		history: was.history, notBefore: was.notBefore,
	}
	if was.leaving && was.next != was.version {
		s.version, s.history = was.next, taskstate.History{}
	}
	if was.peer != "" {
		s.leaveWith(was, now, why, end)
	}
}

func (d *dumb) conclude(j *dumbJob, s *dumbSlot, st taskstate.Status) {
	if j.cancelled || s.retired {
		s.rest(st)
		return
	}
	if s.leaving {
		s.again(j, d.stamp, s.reason, &st)
		return
	}
	ran := d.stamp - s.since
	if st.State == taskstate.Rejected {
		ran = 0
	}
	v := j.job.Restart.Next(s.history, st.State, ran, d.stamp)
	if !v.Again {
		s.rest(st)
		return
	}
	s.history, s.notBefore = v.History, v.NotBefore
	s.again(j, d.stamp, taskstate.ReasonRestart, &st)
}

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

// picked lists the slots that runs mean, as they are now.
func (j *dumbJob) picked(runs []ledger.Slots) (out []int) {
	for _, r := range runs {
		for n := r.First; n < r.First+r.N; n++ {
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
	if len(picked) == 0 {
		return
	}
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
	if j == nil || j.cancelled || j.over {
		return
	}
	for _, i := range j.picked(c.Slots) {
		s := &j.slots[i]
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
	if j.job.Type.Lasts() && taskstate.Restarts(&j.job, &spec) {
		if j.previous == 0 || j.rollout != ledger.Updating && j.rollout != ledger.Paused {
			j.previous = j.job.Version
		}
		spec.Version++
		j.rollout, j.message, j.since = ledger.Updating, "", d.stamp
		j.adopt(spec)
		return
	}
	j.job = spec
	j.specs[spec.Version] = spec
}

// adopt makes a spec the wanted version, and that of slots that are so already; what is of no use any more is dropped.
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
	if j == nil || j.over || j.cancelled || !j.job.Type.Lasts() || c.Version != 0 && c.Version != j.job.Version {
		return
	}
	was := j.rollout
	switch {
	case was == ledger.Updating && (c.State == ledger.Paused || c.State == ledger.Completed),
		was == ledger.Paused && c.State == ledger.Updating,
		was == ledger.RollingBack && (c.State == ledger.RolledBack || c.State == ledger.RollbackPaused),
		was == ledger.RollbackPaused && c.State == ledger.RollingBack,
		was == c.State && was != ledger.NoRollout:
		j.rollout = c.State
	case was == ledger.RollingBack && c.State == ledger.Paused, was == ledger.RollbackPaused && c.State == ledger.Paused:
		j.rollout = ledger.RollbackPaused
	case was == ledger.RollbackPaused && c.State == ledger.Updating, was == ledger.RollingBack && c.State == ledger.Updating:
		j.rollout = ledger.RollingBack
	case c.State == ledger.RollingBack && j.previous != 0:
		spec := j.specs[j.previous]
		spec.Version = j.job.Version + 1
		j.previous, j.rollout, j.message, j.since = 0, ledger.RollingBack, c.Message, d.stamp
		j.adopt(spec)
		return
	default:
		return
	}
	if j.rollout != was {
		j.since, j.message = d.stamp, c.Message
	} else if c.Message != "" {
		j.message = c.Message
	}
}

// more is what show says of a job besides.
func (j *dumbJob) more() string {
	out := fmt.Sprintf("  why %s over %t blocked %v run %d slots %d", j.why, j.over, j.blocked, j.lastRun, len(j.slots))
	if j.job.Type.Lasts() {
		out += fmt.Sprintf(" version %d count %d rollout %s %q since %d from %d", j.job.Version, j.job.Count, j.rollout, j.message, j.since, j.previous)
		for _, v := range slices.Sorted(maps.Keys(j.specs)) {
			out += fmt.Sprintf(" %d: %+v", v, *j.specs[v].Run.Noop)
		}
	}
	return out + "\n"
}

func moreOf(j *ledger.JobRecord) string {
	_, over := j.Ended()
	out := fmt.Sprintf("  why %s over %t blocked %v run %d slots %d", j.Why(), over, j.Blocked(), j.LastRun(), j.Slots())
	if j.Lasts() {
		r := j.Rollout()
		out += fmt.Sprintf(" version %d count %d rollout %s %q since %d from %d", j.Job().Version, j.Job().Count, r.State, r.Message, r.Since, r.From)
		for _, v := range j.Versions() {
			out += fmt.Sprintf(" %d: %+v", v, *j.JobOf(v).Run.Noop)
		}
	}
	return out + "\n"
}

func (s dumbSlot) more() string {
	leaving, next := taskstate.Reason(""), 0
	if s.leaving {
		leaving, next = s.reason, s.next
	}
	notBefore := s.notBefore
	if s.open || s.final != nil {
		notBefore = 0
	}
	return fmt.Sprintf(" version %d leaving %q next %d retired %t not before %d pin %s", s.version, leaving, next, s.retired, notBefore, s.pin)
}

func moreOfSlot(r ledger.SlotRecord) string {
	return fmt.Sprintf(" version %d leaving %q next %d retired %t not before %d pin %s", r.Version, r.Leaving, r.Next, r.Retired, r.NotBefore, r.Pin)
}

func (m *dumbMember) more() string {
	if m == nil {
		return ""
	}
	own := map[string]string{"own": "x", "zone": "own"}
	for k, v := range m.labels {
		own[k] = v
		if v == "" {
			delete(own, k)
		}
	}
	return fmt.Sprintf("takes %t labels %v ", m.avail == "", own)
}

func moreOfMember(m ledger.Member) string {
	return fmt.Sprintf("takes %t labels %v ", m.Takes(), m.LabelsOver(map[string]string{"own": "x", "zone": "own"}))
}
