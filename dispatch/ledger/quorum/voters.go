package quorum

import (
	"fmt"
	"strings"
	"time"

	"covey/dispatch/ledger"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Voter is one server of the ledger's configuration. The server is a life of a peer, not the peer: whoever comes back with another
// incarnation lost its disk, and inherits no vote.
type Voter struct {
	Peer        taskstate.PeerID      `cbor:"1,keyasint"`
	Incarnation taskstate.Incarnation `cbor:"2,keyasint"`
	Voting      bool                  `cbor:"3,keyasint,omitempty"` // false while it catches up
}

// server is the name of a voter inside raft: PEER/INCARNATION, id and address at once. The address carries the incarnation too, so
// that a stream meant for a lost disk is refused by its successor.
func (v Voter) server() string { return v.Peer + "/" + string(v.Incarnation) }

// String writes the server, and whether it only listens.
func (v Voter) String() string {
	if v.Voting {
		return v.server()
	}
	return v.server() + " (not voting)"
}

// parseServer reads what server writes.
func parseServer(s string) (taskstate.PeerID, taskstate.Incarnation, error) {
	peer, inc, ok := strings.Cut(s, "/")
	if !ok || peer == "" || inc == "" {
		return "", "", fmt.Errorf("raft server %q: want PEER/INCARNATION", s)
	}
	return peer, taskstate.Incarnation(inc), nil
}

// Candidate is a peer as the voters' rules see it: an observation, handed in by whoever watches the flock.
type Candidate struct {
	Peer        taskstate.PeerID
	Incarnation taskstate.Incarnation // the life that was seen last
	Alive       bool                  // false also while it is only suspected
	Since       time.Time             // since when Alive is what it is
	Eligible    bool                  // admitted with the role voter, and has not left
	RTT         time.Duration         // the round trip to it, 0 if it was never measured
}

// MaxVoters is the largest number of voters: more would cost more per decision than they save.
const MaxVoters = 5

// targetVoters is how many voters a flock of n eligible peers has: the largest odd number that is not above n or MaxVoters.
func targetVoters(n int) int {
	n = min(n, MaxVoters)
	if n%2 == 0 {
		n--
	}
	return max(n, 1)
}

// majority of n voters.
func majority(n int) int { return n/2 + 1 }

// mayVote tells whether a peer may ever hold a seat: it does, or the roster says that it may get one. That alone gives no say in anything.
func (n *Node) mayVote(peer taskstate.PeerID) bool {
	if peer == n.cfg.Self || n.Seated(peer) {
		return true
	}
	known, member := false, false
	n.rep.Read(func(s *ledger.State) {
		var m ledger.Member
		m, member = s.Member(peer)
		known = member && m.Entry.Has(admission.Voter)
	})
	return known || !member && n.cfg.MayVote != nil && n.cfg.MayVote(peer)
}
