package coordinator

import (
	"slices"
	"time"

	"covey/placement"
)

// A job with a delay is given to peers one task at a time, to where it starts at once, and then rests. So its starts are as far apart as it
// says, but for the time that an assignment is on its way.

// rest has a job that says so start nothing more for its delay.
func (c *Core) rest(j *jobState) {
	if j.job.Delay <= 0 || j.job.Schedule != nil {
		return
	}
	if !j.rests {
		c.resting = append(c.resting, j)
	}
	j.rests, j.restsTo = true, c.now.Add(time.Duration(j.job.Delay)*time.Millisecond)
	c.wakeAt(j.restsTo)
}

// stepResting lets go on what has rested for long enough.
func (c *Core) stepResting() {
	c.resting = slices.DeleteFunc(c.resting, func(j *jobState) bool {
		if j.rests = c.now.Before(j.restsTo); j.rests {
			c.wakeAt(j.restsTo)
		} else {
			c.enqueue(j)
		}
		return !j.rests
	})
}

// placeAtOnce finds a place where a task need not wait for others.
func (c *Core) placeAtOnce(need placement.Need) placement.Plan {
	for i, p := range c.order {
		at := &c.scratch.peers[i]
		if at.Ahead = 0; p.queued() > 0 {
			at.Room = 0
		}
	}
	plan := placement.Place(need, c.scratch.peers, c.seed)
	for i, p := range c.order {
		c.measure(&c.scratch.peers[i], p)
	}
	return plan
}
