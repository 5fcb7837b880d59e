package dispatch

import (
	"fmt"
	"time"

	"covey/taskstate"
)

// dueReplacements gives up attempts on peers that have been unreachable for as long as their jobs allow. The slot waits again in
// the same entry of the ledger.
func (c *Coordinator) dueReplacements() {
	for _, p := range c.order {
		if p.standing != Unreachable {
			continue
		}
		for _, h := range p.byAge() {
			due, ever := c.replaceAt(p, h.job)
			switch {
			case !ever || len(h.slots) == 0:
			case c.now.Before(due):
				c.wakeAt(due)
			case c.mayReplace(p):
				c.replace(p, h)
			}
		}
	}
}

// replaceAt is when attempts of a job on an unreachable peer are given up; ever is false for work that must not run twice. A
// cancelled job waits for nobody.
func (c *Coordinator) replaceAt(p *peerState, j *jobState) (due time.Time, ever bool) {
	switch {
	case j.cancelled:
		return p.lostSince, true
	case j.job.Unreachable.Wait:
		return time.Time{}, false
	}
	return p.lostSince.Add(time.Duration(j.job.Unreachable.ReplaceAfter) * time.Millisecond), true
}

// mayReplace is where the rate limit and the freeze – when most peers vanish at once, this one is the isolated one – have their
// place. Whoever says no here must see to it that Step is called again.
func (c *Coordinator) mayReplace(*peerState) bool { return true }

// replace gives up all a peer has of a job.
func (c *Coordinator) replace(p *peerState, h *holding) {
	for _, n := range h.sorted(func(r rec) bool { return !r.is(deciding) }) {
		r := h.slots[n]
		c.release(p, h, &r)
		r.marks |= deciding
		h.slots[n] = r
		c.supersede(h, taskstate.Task(h.job.id, n, int(r.attempt)), r, taskstate.ReasonUnreachable, false)
	}
}

// waitingForPeers says which of a job's tasks hang on peers that do not answer.
func (c *Coordinator) waitingForPeers(j *jobState) string {
	if j == nil {
		return ""
	}
	for _, p := range c.order {
		h := p.holds[j.id]
		if h == nil || len(h.slots) == 0 || p.standing == Ready {
			continue
		}
		tasks := fmt.Sprintf("%d of its tasks are on peer %s, which is %s", len(h.slots), p.id, p.standing)
		switch due, ever := c.replaceAt(p, j); {
		case p.standing != Unreachable:
			return tasks
		case !ever:
			return tasks + "; they must not run twice and wait for it (unreachable.wait)"
		default:
			return fmt.Sprintf("%s; they go elsewhere in %s", tasks, max(0, due.Sub(c.now).Round(100*time.Millisecond)))
		}
	}
	return ""
}
