package dispatch

import (
	"slices"

	"covey/taskstate"
)

// dueRecalls takes queued tasks back from a peer that has more than it will soon start, when another has nothing to do and nothing
// else waits. Tasks that have started are not touched: the worker decides, it knows.
func (c *Coordinator) dueRecalls() {
	if c.waiting() {
		return
	}
	free := c.freePeers()
	for _, p := range c.order {
		if free == 0 {
			return
		}
		queued := p.queued()
		soon := int(c.recentEnds(p))
		switch {
		case queued == 0 || p.standing != Ready || !p.session.synced:
		case c.now.Before(p.recallAt):
			c.wakeAt(p.recallAt)
		case queued > soon:
			free -= c.recall(p, min(free, (queued-soon+1)/2))
			p.recallAt = c.now.Add(2 * c.cfg.AheadWindow)
			c.wakeAt(p.recallAt)
		default: // it will get to them; look again when its pace has slowed
			c.wakeAt(c.now.Add(c.cfg.AheadWindow))
		}
	}
}

// waiting tells whether any job has something to place.
func (c *Coordinator) waiting() bool {
	for _, k := range c.classes {
		if len(k.line) > 0 {
			return true
		}
	}
	return false
}

// freePeers counts ready peers that could start something now.
func (c *Coordinator) freePeers() int {
	n := 0
	for _, p := range c.order {
		f := p.free()
		if p.standing == Ready && p.session.synced && p.worker && !c.now.Before(p.stopping) && f.MilliCPU > 0 && f.Memory >= 0 {
			n += int(max(1, f.MilliCPU/1000))
		}
	}
	return n
}

// queued estimates how many of p's tasks wait there because they do not fit: those promised beyond the offer.
func (p *peerState) queued() int {
	over := p.promised.Sub(p.offer.Resources)
	if over.MilliCPU <= 0 && over.Memory <= 0 || p.outstanding == 0 {
		return 0
	}
	n := 0
	if over.MilliCPU > 0 {
		n = int(over.MilliCPU * int64(p.outstanding) / max(1, p.promised.MilliCPU))
	}
	if over.Memory > 0 {
		n = max(n, int(over.Memory/max(1, p.promised.Memory/int64(p.outstanding))))
	}
	return max(1, n)
}

// recall asks p to give back up to n tasks that it has not started: the last ones in its line.
func (c *Coordinator) recall(p *peerState, n int) int {
	asked := 0
	for _, h := range slices.Backward(p.byAge()) {
		idle := h.sorted(func(r rec) bool { return r.state < taskstate.Preparing && !r.is(ended|deciding|recalled|stopped) })
		for _, slot := range slices.Backward(idle) {
			if asked == n {
				return asked
			}
			r := h.slots[slot]
			r.marks |= recalled
			h.slots[slot] = r
			p.session.recalls = append(p.session.recalls, taskstate.Task(h.job.id, slot, int(r.attempt)))
			c.touch(p.session)
			asked++
		}
	}
	return asked
}

// lookForRecalls asks to be woken when there may be something to even out: an end left a peer with room, or a peer came.
func (c *Coordinator) lookForRecalls() {
	if !c.freed {
		return
	}
	c.freed = false
	if !c.waiting() && c.anyQueued() {
		c.wakeAt(c.now.Add(c.cfg.AheadWindow))
	}
}

func (c *Coordinator) anyQueued() bool {
	return slices.ContainsFunc(c.order, func(p *peerState) bool { return p.queued() > 0 })
}
