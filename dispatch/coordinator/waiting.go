package coordinator

import (
	"slices"
	"time"

	"covey/taskstate"
)

// keepSpells is how many spells of waiting of one job are remembered: the newest.
const keepSpells = 5

// Spell is a time in which some of a job's slots waited for one and the same reason.
type Spell struct {
	Reason   string // for people, with the number of peers for each cause
	From, To time.Time
	Lasts    bool // they still wait for it; To is when this was last seen
}

// noteWaiting remembers why a job's slots could not be placed now; "" means that all could.
func (j *jobState) noteWaiting(reason string, now time.Time) {
	k := len(j.waited) - 1
	if k >= 0 && j.waiting {
		j.waited[k].To = now
	}
	j.waiting = reason != ""
	if !j.waiting || k >= 0 && j.waited[k].Reason == reason && j.waited[k].To.Equal(now) {
		return
	}
	if len(j.waited) >= keepSpells {
		j.waited = slices.Delete(j.waited, 0, len(j.waited)-keepSpells+1)
	}
	j.waited = append(j.waited, Spell{Reason: reason, From: now, To: now})
}

// Waited lists the newest times in which a job's slots waited because nobody could take them, as far as this coordinator saw them
// and until the job is over.
func (c *Core) Waited(id taskstate.JobID) []Spell {
	j := c.jobs[id]
	if j == nil {
		return nil
	}
	out := slices.Clone(j.waited)
	if n := len(out); n > 0 {
		out[n-1].Lasts = j.waiting
	}
	return out
}

// Waiting tells a person why a job has slots that nobody runs; "" if it has none, or is over.
func (c *Core) Waiting(id taskstate.JobID) string {
	j := c.jobs[id]
	if j == nil || j.pending() == 0 {
		return c.waitingForPeers(j)
	}
	if why := c.waitsFor(j); why != "" {
		return why
	}
	if j.rests {
		return "delay: the next of its tasks starts " + (time.Duration(j.job.Delay) * time.Millisecond).String() + " after the one before"
	}
	if j.mayStart() == 0 {
		return "parallel: as many of its tasks run as may run at once"
	}
	c.fillPeers()
	for _, l := range j.lots {
		if n := l.mayStart(); n > 0 {
			if plan := c.place(l, n); plan.Reason != "" {
				return c.sentence(l, plan)
			}
		}
	}
	return aboutToStart
}
