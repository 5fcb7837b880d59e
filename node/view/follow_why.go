package view

import (
	"context"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// whyEvery is after how long a client that follows a job hears why it waits, and how often anew:
// most waits are over before.
const whyEvery = 2 * time.Second

// reasons tell who follows a job why it waits, and what of it cannot be reached.
type reasons struct {
	since time.Time // it waits, or a peer is away; zero: neither
	asked time.Time
	last  api.Job // with what was answered
}

// tell adds to a job's row what is known.
func (r *reasons) tell(ctx context.Context, v *View, row *api.Job) {
	now := time.Now()
	switch {
	case row.Over() || waiting(row) == 0 && row.Tasks["running"] > 0 && !v.somebodyIsAway():
		*r = reasons{}
		return
	case r.since.IsZero():
		r.since = now
	}
	if now.Sub(r.since) < whyEvery {
		return
	}
	if now.Sub(r.asked) >= whyEvery {
		r.last = *row
		v.explainRow(ctx, &r.last)
		r.asked = time.Now() // asking may have taken a while, in which nothing else was told
	}
	row.Waiting, row.Unreachable = r.last.Waiting, r.last.Unreachable
}

// waiting counts the tasks of a job that wait for a peer, or for their turn on one.
func waiting(row *api.Job) (n int) {
	for _, s := range []taskstate.State{taskstate.Pending, taskstate.Assigned, taskstate.Accepted} {
		n += row.Tasks[s.String()]
	}
	return n
}

// due is when to look again although nothing has happened; nil: never.
func (r *reasons) due() <-chan time.Time {
	if r.since.IsZero() {
		return nil
	}
	last := r.since
	if r.asked.After(last) {
		last = r.asked
	}
	return time.After(time.Until(last.Add(whyEvery)))
}

// somebodyIsAway tells whether a peer is dead as this one sees it.
func (v *View) somebodyIsAway() bool {
	for _, m := range v.cfg.Members().Members {
		if m.Verdict == membership.Dead {
			return true
		}
	}
	return false
}
