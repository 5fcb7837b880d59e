package placement

import (
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// Need is what is to be placed: Tasks tasks of one job, all alike. What is not said does not
// restrict.
type Need struct {
	Tasks       int                     // how many, ≥ 0
	Resources   taskstate.Resources     // of each
	MaxPerPeer  int                     // at most so many tasks of this job on one peer at once, 0 = no cap
	Constraints []constraint.Constraint // all must hold
	Strategy    taskstate.Strategy      // "" is spread
	Over        constraint.Key          // spread: first evenly over the values of this key; peers without it are one more value
	Only        taskstate.PeerID        // the one peer it may go to; who knows where that one is passes it alone and saves a search
	Matcher     *Matcher                // optional: remembers what constraints said of the peers; changes nothing but the cost
}

// Peer is one peer as the coordinator sees it now.
type Peer struct {
	ID        taskstate.PeerID
	Ready     bool                // alive, with a session
	Available bool                // takes new tasks (active; neither paused nor drained, and a worker)
	Faulty    bool                // this version of the job failed there too often lately: avoided while others would do
	Offer     taskstate.Resources // what it has to give in all
	Free      taskstate.Resources // Offer less what is promised there; negative where tasks queue ahead of need
	Ahead     int                 // so many tasks may wait there beyond what fits, so that a slot never waits for a round trip
	Room      int                 // so many more tasks of any kind it takes, whatever they need
	OfJob     int                 // tasks of this job there now
	Total     int                 // tasks of all jobs there now
	Here      int64               // bytes of the tasks' inputs that it keeps, as far as is known
	Facts     *constraint.Facts   // what constraints and Over ask about; nil meets none
	NoFiles   bool                // the job's tasks leave files, and it has no room for them
	Barred    string              // why its owner does not let the job run there; "": as far as is known, it may
	Held      bool                // its owner lets it have HeldTo more tasks of who asks, and no more
	HeldTo    int
}

// Plan says how many tasks go to each peer.
type Plan struct {
	Counts []int  // one for each peer, in the order given
	Placed int    // their sum
	Queued int    // so many of them wait on their peer until something there ends
	Reason string // why not all could be placed, for people; "" when all were

	Suitable int       // peers that passed all filters
	Refused  []Refusal // when not all could be placed: all other peers, by what refused them
}

// Refusal is a reason and the number of peers it refused. A peer is counted once, by the first
// filter that refused it.
type Refusal struct {
	Text  string // "constraint peer.os == linux not met by 2 peers"
	Peers int
}

// Place plans need over peers. Peers with free resources come before peers that would only queue;
// among those the strategy chooses. Where it sees no difference, those come first that keep most of
// the tasks' inputs, and then a draw decides that depends on seed and peer id alone. To random all
// peers are equal, and it is by lot whatever they keep.
//
// It never plans more on a peer than fits there (plus Ahead, up to Room), nor more of the job than
// MaxPerPeer, nor anything on a peer that breaks a constraint. It costs O(peers · log peers),
// however many tasks there are; random costs O(tasks) more.
func Place(need Need, peers []Peer, seed uint64) Plan {
	plan := Plan{Counts: make([]int, len(peers))}
	a := prepare(need)
	cands, refused := a.admit(peers)
	hand, left := a.strategy(cands, peers, seed), need.Tasks
	for _, tier := range []tier{now, ahead} {
		if left <= 0 || len(cands) == 0 {
			break
		}
		given := hand(tier, left)
		left -= given
		if tier == ahead {
			plan.Queued = given
		}
	}
	for i := range cands {
		plan.Counts[cands[i].at] = cands[i].given
	}
	plan.Placed, plan.Suitable = max(need.Tasks, 0)-max(left, 0), len(cands)
	if left > 0 {
		plan.Refused = refused.list(a)
		plan.Reason = reason(a, plan.Refused, len(cands), refused.considered)
	}
	return plan
}

// strategy gives the function that hands up to n tasks to the candidates, within their limits for a
// tier, and tells how many.
func (a *ask) strategy(cands []candidate, peers []Peer, seed uint64) func(t tier, n int) int {
	switch a.Strategy {
	case taskstate.Binpack:
		return binpack(a, cands, seed)
	case taskstate.Random:
		return random(cands, seed)
	}
	if a.Over != (constraint.Key{}) {
		return spreadOver(a, cands, peers, seed)
	}
	return func(t tier, n int) int { return spread(cands, t, n, seed) }
}

// A tier is a round of handing out: first what can start at once, then what waits in line.
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
