package sim

import (
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// restarts is I15: what restart policies did to slots, and what people did besides.
type restarts struct {
	w      *world
	of     map[slot]*restarted
	wanted map[slot]int // attempts after which somebody wanted another one
}

// restarted is what the restart policy did to one slot.
type restarted struct {
	policy  taskstate.Restart
	version int
	granted []int64 // ledger stamps
	attempt int     // the one that waits for its delay, or did
	since   time.Duration
}

// again is I15, as the ledger decides: no policy grants more than its attempts.
func (r *restarts) again(a *ledger.Again) {
	w := r.w
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
			if x := r.of[k]; x != nil {
				x.attempt = 0
			}
			continue
		}
		if policy == nil {
			w.fail("I15", "%v is restarted, and nobody asked for that", k)
			return
		}
		x := r.of[k]
		if x == nil || x.version != a.Version || x.policy != *policy {
			x = &restarted{policy: *policy, version: a.Version}
			r.of[k] = x
		}
		x.attempt, x.since = a.Slots.Attempt, w.now()
		x.granted = append(x.granted, w.quorum.truth.Stamp())
		if n := x.within(); policy.Attempts > 0 && n > policy.Attempts {
			w.fail("I15", "%v was restarted %d times, and may be %d times", k, n, policy.Attempts)
		}
	}
}

// within counts the restarts within the window.
func (x *restarted) within() int {
	n, now := 0, x.granted[len(x.granted)-1]
	for _, t := range x.granted {
		if x.policy.Window == 0 || now-t < x.policy.Window {
			n++
		}
	}
	return n
}

// early is I15, as it really is: no restart comes before its delay.
func (r *restarts) early(t taskstate.TaskID) {
	x := r.of[slotOf(t)]
	if x == nil || x.attempt != t.Attempt {
		return
	}
	waited, told := r.w.now()-x.since, millis(r.w.quorum.truth.Stamp()-x.granted[len(x.granted)-1])
	if r.w.clocks {
		waited = told // the ledger's time is that of clocks that were wrong
	}
	if delay := millis(x.policy.Delay); waited <= delay-time.Millisecond || told < delay {
		r.w.fail("I15", "%s starts %v after the attempt before it ended, by the ledger %v, and should wait %v", t, waited, told, delay)
	}
}

// wantedAfter tells whether somebody wanted another attempt while this one was given out. The
// worker that has it may be cut off, and start it after that.
func (r *restarts) wantedAfter(t taskstate.TaskID) bool {
	last, ok := r.wanted[slotOf(t)]
	return ok && t.Attempt <= last
}

// mayFollow tells whether an attempt of a job that must not run twice ended in a way that its
// policy answers with another one.
func (c *check) mayFollow(j *work, before taskstate.TaskID) bool {
	if c.restarts.wantedAfter(before) {
		return true // somebody said so
	}
	rep, over := c.outcomes[before]
	return over && j.job.Restart != nil && rep.State == taskstate.Failed
}
