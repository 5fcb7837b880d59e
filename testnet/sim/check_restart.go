package sim

import (
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// restarts is what the restart policy did to one slot.
type restarts struct {
	policy  taskstate.Restart
	version int
	granted []int64 // ledger stamps
	attempt int     // the one that waits for its delay, or did
	since   time.Duration
}

// again is I15, as the ledger decides: no policy grants more than its attempts.
func (c *check) again(a *ledger.Again) {
	w := c.w
	rec, ok := w.quorum.truth.Job(a.Job)
	j := w.load.byID[a.Job]
	if !ok || j == nil {
		return
	}
	policy := j.job.Restart
	if j.lasts() {
		policy = j.meant(rec.Job()).Restart
	}
	for n := a.Slots.First; n < a.Slots.First+a.Slots.N; n++ {
		k, past := slot{a.Job, n}, rec.Past(n)
		if len(past) == 0 || past[len(past)-1].Reason != taskstate.ReasonRestart {
			if x := c.restarts[k]; x != nil {
				x.attempt = 0
			}
			continue
		}
		if policy == nil {
			w.fail("I15", "%v is restarted, and nobody asked for that", k)
			return
		}
		x := c.restarts[k]
		if x == nil || x.version != a.Version || x.policy != *policy {
			x = &restarts{policy: *policy, version: a.Version}
			c.restarts[k] = x
		}
		x.attempt, x.since = a.Slots.Attempt, w.now()
		x.granted = append(x.granted, w.quorum.truth.Stamp())
		if n := x.within(); policy.Attempts > 0 && n > policy.Attempts {
			w.fail("I15", "%v was restarted %d times, and may be %d times", k, n, policy.Attempts)
		}
	}
}

// within counts the restarts within the window.
func (x *restarts) within() int {
	n, now := 0, x.granted[len(x.granted)-1]
	for _, t := range x.granted {
		if x.policy.Window == 0 || now-t < x.policy.Window {
			n++
		}
	}
	return n
}

// early is I15, as it really is: no restart comes before its delay.
func (c *check) early(t taskstate.TaskID) {
	x := c.restarts[slotOf(t)]
	if x == nil || x.attempt != t.Attempt {
		return
	}
	waited, told := c.w.now()-x.since, millis(c.w.quorum.truth.Stamp()-x.granted[len(x.granted)-1])
	if c.w.clocks {
		waited = told // the ledger's time is that of clocks that were wrong
	}
	if delay := millis(x.policy.Delay); waited <= delay-time.Millisecond || told < delay {
		c.w.fail("I15", "%s starts %v after the attempt before it ended, by the ledger %v, and should wait %v", t, waited, told, delay)
	}
}

// wantedAgain tells whether somebody wanted another attempt while this one was given out. Whoever
// has it may be cut off, and start it after that.
func (c *check) wantedAgain(t taskstate.TaskID) bool {
	last, ok := c.redone[slotOf(t)]
	return ok && t.Attempt <= last
}

// mayFollow tells whether an attempt of a job that must not run twice ended in a way that its
// policy answers with another one.
func (c *check) mayFollow(j *work, before taskstate.TaskID) bool {
	if last, ok := c.redone[slotOf(before)]; ok && before.Attempt <= last {
		return true // somebody said so
	}
	rep, over := c.outcomes[before]
	return over && j.job.Restart != nil && rep.State == taskstate.Failed
}
