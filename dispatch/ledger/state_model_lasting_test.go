package ledger_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// dumbLasting is what the twin's jobs have because of services, dependencies, restarts and
// schedules.
type dumbLasting struct {
	why      taskstate.Reason
	over     bool
	blocked  []taskstate.JobID
	lastRun  int64
	skips    []ledger.Skipped
	changed  int64 // when the schedule was
	forgiven int
	first    int
	specs    map[int]taskstate.Job
	previous int
	rollout  taskstate.RolloutState
	message  string
	since    int64
	revised  []uint64 // entries that changed the spec or the rollout
	moved    []uint64 // entries that added, renewed or retired slots
}

// news tells whether a service is to be otherwise than a peer that had seen the entries up to one
// of them could know.
func (d *dumb) news(j *dumbJob, seen uint64) bool {
	newer := func(i uint64) bool { return i > seen }
	before := func(i uint64) bool { return i > seen && i < d.index }
	return j.job.Type.Lasts() && seen > 0 && (slices.ContainsFunc(j.revised, newer) || slices.ContainsFunc(j.moved, before))
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
		if parent == nil || parent.cancelled || o.At <= parent.started() {
			return
		}
		if parent.job.Schedule.Overlap != taskstate.AllowOverlap {
			for _, run := range slices.Backward(d.jobs) {
				if x := run.job.Origin; x != nil && x.Job == o.Job && !run.over {
					parent.skips = append(parent.skips, ledger.Skipped{At: o.At, Run: run.job.ID, Stamp: d.stamp})
					return
				}
			}
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

// started is up to when a schedule decided about its starts, or would decide otherwise now.
func (j *dumbJob) started() (at int64) {
	at = max(j.lastRun, j.changed)
	for _, s := range j.skips {
		at = max(at, s.At)
	}
	return at
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
	busy := j.rollout == taskstate.RolloutUpdating || j.rollout == taskstate.RolloutPaused || j.rollout == taskstate.RolloutRollingBack || j.rollout == taskstate.RolloutRollbackPaused
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
	was, last := *s, s.attempt
	for _, p := range was.past {
		last = max(last, p.attempt)
	}
	*s = dumbSlot{
		attempt: max(last+1, j.first), past: was.past, version: was.version, pin: was.pin,
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

// more is what show says of a job besides.
func (j *dumbJob) more() string {
	out := fmt.Sprintf("  why %s over %t blocked %v run %d slots %d", j.why, j.over, j.blocked, j.lastRun, len(j.slots))
	out += fmt.Sprintf(" skipped %d %v", len(j.skips), j.skips[max(0, len(j.skips)-ledger.KeepSkips):])
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
	skips, n := j.Skips()
	out += fmt.Sprintf(" skipped %d %v", n, skips)
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
