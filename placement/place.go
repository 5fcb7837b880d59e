package placement

import (
	"covey/taskstate"
)

// Need is what is to be placed: Tasks tasks of one job, all alike.
type Need struct {
	Tasks      int                 // how many, ≥ 0
	Resources  taskstate.Resources // of each
	MaxPerPeer int                 // at most so many tasks of this job on one peer at once, 0 = no cap
}

// Peer is one peer as the coordinator sees it now.
type Peer struct {
	ID        taskstate.PeerID
	Ready     bool                // alive, with a session
	Available bool                // takes new tasks (active; neither paused nor drained, and a worker)
	Offer     taskstate.Resources // what it has to give in all
	Free      taskstate.Resources // Offer less what is promised there; negative where tasks queue ahead of need
	Ahead     int                 // so many tasks may wait there beyond what fits, so that a slot never waits for a round trip
	Room      int                 // so many more tasks of any kind it takes, whatever they need
	OfJob     int                 // tasks of this job there now
	Total     int                 // tasks of all jobs there now
}

// Plan says how many tasks go to each peer.
type Plan struct {
	Counts []int  // one for each peer, in the order given
	Placed int    // their sum
	Reason string // why not all could be placed, for people; "" when all were
}

// Place plans need over peers. Peers with free resources come before peers that would only queue; among equals the one with the
// fewest tasks of this job, then with the fewest in total, then by a draw that depends on seed and peer id alone.
//
// It never plans more on a peer than fits there (plus Ahead, up to Room), nor more of the job than MaxPerPeer. It costs
// O(peers · log peers), however many tasks there are.
func Place(need Need, peers []Peer, seed uint64) Plan {
	plan := Plan{Counts: make([]int, len(peers))}
	cands, refused := admit(need, peers)
	left := need.Tasks
	for _, tier := range []tier{now, ahead} {
		left -= spread(cands, tier, left, seed)
	}
	for _, c := range cands {
		plan.Counts[c.at] = c.given
	}
	plan.Placed = need.Tasks - left
	if left > 0 {
		plan.Reason = refused.reason(cands)
	}
	return plan
}

// A tier is a round of spreading: first what can start at once, then what waits in line.
type tier int

const (
	now tier = iota
	ahead
)

// candidate is a peer that passed all filters.
type candidate struct {
	*Peer
	at    int    // position among the peers given
	fits  int    // tasks that can start at once
	room  int    // tasks it takes in all, ≥ fits
	given int    // tasks it got so far
	draw  uint64 // breaks ties
}

// limit is how many tasks c may hold at the end of a tier.
func (c *candidate) limit(t tier) int {
	if t == now {
		return c.fits
	}
	return c.room
}
