package quorum

import (
	"time"

	"covey/taskstate"
)

// patience is how long a voter waits for others before and in an election. Up to a round trip of 75 ms it is what Timings say; beyond, it
// grows with the round trip, so that a living coordinator is not taken for a dead one, nor a question for one that nobody answers.
type patience struct {
	leader time.Duration // for the leader to say that it lives
	voter  time.Duration // for another voter to say whether it hears the leader, which it asks itself
	step   time.Duration // between two candidates: for the first to win before the second stands
	pause  time.Duration // between two tries to be let stand, at least
	way    time.Duration // how old a word is when it arrives: what comes sooner was said before one began to listen
}

const (
	// rankStep is step on fast links: some round trips.
	rankStep = 75 * time.Millisecond
	// standPause is pause on fast links: long enough for another one to be elected.
	standPause = 40 * time.Millisecond
	// farthest bounds what a measured round trip counts for: one that is longer was measured while the machine slept.
	farthest = time.Second
)

// patienceFor is that of voters whose longest round trip is rtt. A question takes one, and another to open a stream for it.
func patienceFor(t Timings, rtt time.Duration) patience {
	h, rtt := t.Heartbeat, min(rtt, farthest)
	leader := max(h, h/2+2*rtt)
	return patience{leader: leader, voter: leader + max(h/3, 2*rtt), step: max(rankStep, 2*rtt), pause: max(standPause, rtt/2), way: rtt / 2}
}

// patience is for the voters of a seat, by what membership measured.
func (n *Node) patience(s *seat) patience {
	vs, err := s.servers()
	if err != nil {
		return patienceFor(n.cfg.Timings, 0)
	}
	votes := map[taskstate.PeerID]bool{}
	for _, v := range vs {
		votes[v.Peer] = v.Voting
	}
	var rtt time.Duration
	for _, c := range n.cfg.Candidates() {
		if votes[c.Peer] {
			rtt = max(rtt, c.RTT)
		}
	}
	return patienceFor(n.cfg.Timings, rtt)
}
