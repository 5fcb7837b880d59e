package coordinator

import (
	"github.com/coveyproject/covey/dispatch/cron"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func (js *jobs) stepSchedules() {
	for _, s := range js.schedules.watched {
		now := js.clock.Stamp()
		if s.job.cancelled || now < s.next {
			if !s.job.cancelled {
				js.clock.WakeAt(js.clock.When(s.next))
			}
			continue
		}
		at, due, err := cron.Due(s.job.job.Schedule, s.last, now)
		if err == nil && due && s.job.job.Expired(now) == "" {
			s.last = at
			js.outbox.decide(js.startOrSkip(s, at))
		}
		if s.next, err = cron.Next(s.job.job.Schedule, now); err != nil {
			s.next = now + cron.MaxLate.Milliseconds()
		}
		js.clock.WakeAt(js.clock.When(s.next))
	}
}

// startOrSkip starts the run of a schedule for a moment, or skips it because the one before goes
// on.
func (js *jobs) startOrSkip(s *scheduled, at int64) ledger.Command {
	parent := s.job.job
	if run := js.runsStill(s); run != "" && parent.Schedule.Overlap != taskstate.AllowOverlap {
		return ledger.Command{Skip: &ledger.Skip{Job: parent.ID, At: at, Run: run}}
	}
	run := parent.RunAt(at)
	s.starts = run.ID
	return ledger.Command{Submit: &ledger.Submit{Job: run}}
}

// runsStill is the newest run of a schedule that goes on, or is being decided; "" if there is none.
func (js *jobs) runsStill(s *scheduled) taskstate.JobID {
	if s.starts != "" {
		return s.starts
	}
	var newest *jobState
	for _, j := range js.all {
		if o := j.job.Origin; o != nil && o.Job == s.job.id && (newest == nil || j.index > newest.index) {
			newest = j
		}
	}
	if newest == nil {
		return ""
	}
	return newest.id
}
