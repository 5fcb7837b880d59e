package quorum

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"covey/p2p/admission"
	"covey/taskstate"
)

// Two voters that stand for election at the same moment may each get their own vote and no other; raft tries again after its own patience,
// which is seconds. So a voter asks first to be let: each voter lets one at a time, and so at most one is let by a majority. Who is not
// let tries again in a moment. It is a question of manners: what counts is raft's vote.

// standTries is how often a voter asks to be let before it looks for the leader anew.
const standTries = 4

// stands is whom this voter lets stand for election. The zero value is ready for use.
type stands struct {
	mu    sync.Mutex
	who   string
	term  uint64 // after which it wants to stand; a word about an earlier one is void
	until time.Time
}

// let tells whether a server may stand after a term, and keeps others from it for a while.
func (s *stands) let(server string, term uint64, now time.Time, while time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if term < s.term || term == s.term && s.who != server && now.Before(s.until) {
		return false
	}
	s.who, s.term, s.until = server, term, now.Add(while)
	return true
}

// drop gives the word back, if it was given to this server.
func (s *stands) drop(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.who == server {
		s.until = time.Time{}
	}
}

// mayAskToStand tells whether a peer may ask to be let stand: for itself, if it votes, and in a term that follows on what this voter knows.
func (n *Node) mayAskToStand(s *seat, peer taskstate.PeerID, ask sightAsk) bool {
	of, _, err := parseServer(ask.Stand)
	if err != nil || of != peer || !n.Seated(peer) {
		return false
	}
	if ask.Term > s.raft.CurrentTerm()+admission.MaxLeap {
		n.authority.refused.Note(peer, "a term that no honest peer can name")
		return false
	}
	return true
}

// mayStand asks the other voters to be let stand for election. It gives up when somebody else got so far, or the leader is heard.
func (n *Node) mayStand(ctx context.Context, s *seat, others []Voter, p patience) bool {
	begin, me := time.Now().Add(p.way), s.self.server()
	for range standTries {
		if n.stands.let(me, s.raft.CurrentTerm(), time.Now(), p.leader) {
			if n.letBy(ctx, s, others, p) {
				return true
			}
			n.stands.drop(me)
		}
		sleep(ctx, p.pause+rand.N(2*p.pause))
		if ctx.Err() != nil || s.heardSince(begin) {
			return false
		}
	}
	return false
}

// letBy tells whether a majority, this voter included, lets it stand.
func (n *Node) letBy(ctx context.Context, s *seat, others []Voter, p patience) bool {
	type word struct{ lets, said bool }
	words := make(chan word, len(others))
	for _, v := range others {
		go func() { // ends with the question, which has its limit
			a, err := n.askSight(ctx, v.Peer, sightAsk{Generation: s.generation, Stand: s.self.server(), Term: s.raft.CurrentTerm()}, p.leader)
			words <- word{lets: a.Lets, said: err == nil}
		}()
	}
	yes := 1
	for range others {
		w := <-words
		if w.said && !w.lets {
			return false // somebody else is let; waiting for the silent would let neither
		}
		if w.lets {
			yes++
		}
		if 2*yes > len(others)+1 {
			return true
		}
	}
	return false
}
