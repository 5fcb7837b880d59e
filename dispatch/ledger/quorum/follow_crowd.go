package quorum

import (
	"sync"
	"time"

	"covey/taskstate"
)

// A snapshot is the whole state, encoded anew for each who needs one. An honest peer needs one when it is new, or was away for long,
// or cannot keep up; one that asks again and again would keep this peer busy with nothing else.
const (
	snapshotBurst = 8               // to one peer, before
	snapshotEvery = 2 * time.Second // one more in so long
)

// crowd counts who is served. A peer has few places of the many: one that opens stream after stream leaves room for the others.
type crowd struct {
	mu   sync.Mutex
	all  int
	each map[taskstate.PeerID]int
	took map[taskstate.PeerID]allowance // snapshots; whoever has its whole allowance again is not in it
}

// allowance is a bucket of tokens: missing many are spent, and one is back at refill.
type allowance struct {
	missing int
	refill  time.Time
}

func (c *crowd) enter(peer taskstate.PeerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxFollowers || c.each[peer] >= maxFollowing {
		return false
	}
	if c.each == nil {
		c.each = map[taskstate.PeerID]int{}
	}
	c.all++
	c.each[peer]++
	return true
}

func (c *crowd) leave(peer taskstate.PeerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.each[peer]--; c.each[peer] == 0 {
		delete(c.each, peer)
	}
}

// snapshot tells whether peer may have one more now, and counts it.
func (c *crowd) snapshot(peer taskstate.PeerID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.took == nil {
		c.took = map[taskstate.PeerID]allowance{}
	}
	for p, a := range c.took {
		for a.missing > 0 && !now.Before(a.refill) {
			a.missing, a.refill = a.missing-1, a.refill.Add(snapshotEvery)
		}
		if c.took[p] = a; a.missing == 0 {
			delete(c.took, p)
		}
	}
	a := c.took[peer]
	if a.missing >= snapshotBurst {
		return false
	}
	if a.missing == 0 {
		a.refill = now.Add(snapshotEvery)
	}
	a.missing++
	c.took[peer] = a
	return true
}
