package coordinator

import (
	"time"

	"github.com/coveyproject/covey/dispatch/cron"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func (js *jobs) stepSchedules() {
	now := js.scheduleTime()
	wake := func(s *scheduled) {
		js.clock.WakeAt(js.clock.Now().Add(time.Duration(s.next-now) * time.Millisecond))
	}
	for _, s := range js.schedules.watched {
		if s.job.cancelled || now < s.next {
			if !s.job.cancelled {
				wake(s)
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
		wake(s)
	}
}

// waitedOut is how far the ledger's time may be ahead of most voters' clocks for schedules to wait
// until the clocks have come so far.
const waitedOut = time.Hour

// scheduleTime is the moment that schedules have come to: the ledger's time, or what most voters'
// clocks show while it is ahead of them by less than waitedOut.
func (js *jobs) scheduleTime() int64 {
	now := js.clock.Stamp()
	if js.schedules.clocks == nil {
		return now
	}
	if wall := js.schedules.clocks(); wall < now && now-wall < waitedOut.Milliseconds() {
		return wall
	}
	return now
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
