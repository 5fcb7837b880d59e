package coordinator

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"

	"covey/dispatch/cron"
	"covey/dispatch/ledger"
	"covey/taskstate"
)

// scheduled is a job that only starts others like it.
type scheduled struct {
	job    *jobState
	last   int64           // up to here every start was decided, or not wanted; see ledger.JobRecord.StartsFrom
	next   int64           // when to look again, 0 = now. All by the ledger's stamps.
	starts taskstate.JobID // its newest run, as long as that is being decided
}

// addSchedule begins to watch the schedule of a job, if it has one, for starts after a moment.
func (c *Core) addSchedule(j *jobState, last int64) {
	if j.job.Schedule != nil && j.lasting == nil {
		c.schedules = append(c.schedules, &scheduled{job: j, last: last})
		c.wakeAt(c.now)
	}
}

// reschedule has a job that only starts others do so as its new spec says, from now on: what the old one did not start is not made up for.
func (c *Core) reschedule(j *jobState, next *taskstate.Job) {
	j.job = next
	for _, s := range c.schedules {
		if s.job == j {
			s.last, s.next = max(s.last, c.clock.stamp(c.now)), 0
			c.wakeAt(c.now)
		}
	}
}

// stepSchedules starts what is due.
func (c *Core) stepSchedules() {
	for _, s := range c.schedules {
		now := c.clock.stamp(c.now)
		if s.job.cancelled || now < s.next {
			if !s.job.cancelled {
				c.wakeAt(c.clock.when(s.next))
			}
			continue
		}
		at, due, err := cron.Due(s.job.job.Schedule, s.last, now)
		if err == nil && due {
			s.last = at
			c.outbox.decide(c.startOrSkip(s, at))
		}
		if s.next, err = cron.Next(s.job.job.Schedule, now); err != nil {
			s.next = now + cron.MaxLate.Milliseconds()
		}
		c.wakeAt(c.clock.when(s.next))
	}
}

// startOrSkip starts the run of a schedule for a moment, or skips it because the one before goes on.
func (c *Core) startOrSkip(s *scheduled, at int64) ledger.Command {
	parent := s.job.job
	if run := c.runsStill(s); run != "" && parent.Schedule.Overlap != taskstate.AllowOverlap {
		return ledger.Command{Skip: &ledger.Skip{Job: parent.ID, At: at, Run: run}}
	}
	run := runOf(parent, at)
	s.starts = run.ID
	return ledger.Command{Submit: &ledger.Submit{Job: run}}
}

// runsStill is the newest run of a schedule that goes on, or is being decided; "" if there is none.
func (c *Core) runsStill(s *scheduled) taskstate.JobID {
	if s.starts != "" {
		return s.starts
	}
	var newest *jobState
	for _, j := range c.jobs {
		if o := j.job.Origin; o != nil && o.Job == s.job.id && (newest == nil || j.index > newest.index) {
			newest = j
		}
	}
	if newest == nil {
		return ""
	}
	return newest.id
}

// runDecided hears that a submission was decided, whichever way. If it is a run of a schedule, it is a job from now on, or will never be.
func (c *Core) runDecided(id taskstate.JobID) {
	for _, s := range c.schedules {
		if s.starts == id {
			s.starts = ""
		}
	}
}

// runOf is the job that a schedule starts for a moment. Its id follows from both, so that whoever coordinates submits the same.
func runOf(parent *taskstate.Job, at int64) taskstate.Job {
	job := *parent
	job.Schedule, job.After, job.Origin = nil, nil, &taskstate.Origin{Job: parent.ID, At: at}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(parent.ID), uint64(at)))
	job.ID = taskstate.JobID(strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:taskstate.JobIDLen])
	return job
}
