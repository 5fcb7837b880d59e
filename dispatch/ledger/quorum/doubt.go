package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"covey/p2p"
	"covey/taskstate"
)

// Who needs the coordinator looks whether it lives; nobody else does. Raft's heartbeats are rare (see raftTimers), because
// each wakes two processes up, and an idle flock should sleep. What they are for, noticing that a coordinator is gone, is done on
// evidence instead: a raft stream from it broke, membership changed its mind about somebody, or a call to it is not answered at once.
// Then each voter asks it directly, and the other voters whether they hear it. If a majority does not, the one among them whose log
// goes furthest stands for election. Raft's own timers remain, as the last resort.
//
// Safety is raft's alone: the question decides only who stands, and when.

const (
	// askAgain is how soon a question that could not be put is put again: a dying process loses its connections one after the other,
	// and only the dial after that is refused.
	askAgain = 30 * time.Millisecond
	// askLost is how often a peer without a seat asks the voters while nobody leads: what they have lost, for whoever wants to know.
	askLost = 2 * time.Second
	// looksAtOnce bounds the questions of others that are looked into at the same time.
	looksAtOnce = 16
)

// sightAsk asks a voter about the leader of a generation.
type sightAsk struct {
	Generation uint64 `cbor:"1,keyasint"`
	Direct     bool   `cbor:"2,keyasint,omitempty"` // say only whether it is you
	Look       bool   `cbor:"3,keyasint,omitempty"` // the same, and look for yourself: somebody without a vote waits for the leader
	Stand      string `cbor:"4,keyasint,omitempty"` // this server wants to stand for election: say whether you let it
	Term       uint64 `cbor:"5,keyasint,omitempty"` // after this term
}

// sight is what a voter answers.
type sight struct {
	Leads bool   `cbor:"1,keyasint,omitempty"` // it is I
	Hears bool   `cbor:"2,keyasint,omitempty"` // I do not lead, but heard the leader since you asked
	Last  uint64 `cbor:"3,keyasint,omitempty"` // the end of my log
	Lets  bool   `cbor:"4,keyasint,omitempty"` // stand; I do not, nor do I let anybody else for a while
}

// sighting is one voter's answer, or its silence.
type sighting struct {
	server   string
	answered bool
	sight
}

// judge tells from the answers of all other voters whether a voter with this log stands for election, and after how many others.
// Everybody who has the same answers comes to the same order. A majority must be without a leader, as in raft's own pre-vote, so
// that one broken link deposes nobody.
func judge(self string, last uint64, others []sighting) (stand bool, rank int) {
	silent := 1
	for _, o := range others {
		switch {
		case !o.answered:
		case o.Leads:
			return false, 0
		case !o.Hears:
			silent++
			if o.Last > last || o.Last == last && o.server < self {
				rank++
			}
		}
	}
	return 2*silent > len(others)+1, rank
}

// Doubt is called by whoever waits for the coordinator, or has seen a sign of its end. It returns at once; if the coordinator is gone
// there will be an election, about Timings.Heartbeat later on fast links (much sooner if dials to it are refused). If it lives, nothing happens.
func (n *Node) Doubt() { nudge(n.doubt) }

// runDoubt looks into doubts until ctx ends. While this voter knows no leader it looks by itself, every one to two Timings.Heartbeat:
// not at once, for somebody may be about to be elected.
func (n *Node) runDoubt(ctx context.Context) {
	h := n.cfg.Timings.Heartbeat
	t := time.NewTimer(h + rand.N(h))
	defer t.Stop()
	alone := true // no leader was known when the timer was set; while it runs, it alone makes this peer look
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			alone = true
		case <-n.doubt:
			if s := n.currentSeat(); alone && s != nil && !s.hasLeader() {
				continue
			}
			alone = false
		}
		s := n.currentSeat()
		seen := true
		switch {
		case s == nil:
			if !alone || n.leaderless() {
				n.passDoubt(ctx)
			}
		case s.raft.State() == raft.Leader:
		case alone || s.hasLeader():
			seen = n.lookForLeader(ctx, s)
		}
		// Raft goes on knowing a leader for seconds after its end: as long as nobody has seen it alive, the doubt stands.
		if alone = s != nil && !(seen && s.hasLeader()); alone {
			t.Reset(h + rand.N(h))
		} else if s == nil && n.leaderless() {
			t.Reset(askLost)
		} else {
			sleep(ctx, h/3) // the next doubt is not looked into at once
		}
	}
}

// leaderless tells whether nobody is known here to coordinate.
func (n *Node) leaderless() bool {
	_, _, ok := n.Coordinator()
	return !ok
}

// hasLeader tells whether raft knows a leader, this server included.
func (s *seat) hasLeader() bool {
	_, known := s.leader()
	return known
}

// passDoubt tells the voters that somebody waits for the coordinator: they look, not this peer, which has no vote.
func (n *Node) passDoubt(ctx context.Context) {
	g := n.Generation()
	var wg sync.WaitGroup
	for _, v := range n.Voters() {
		if v.Voting && v.Peer != n.cfg.Self {
			wg.Go(func() {
				_, _ = n.callVoter(ctx, v.Peer, voterAsk{Sight: &sightAsk{Generation: g, Look: true}}, n.cfg.Timings.Heartbeat)
			})
		}
	}
	wg.Wait()
}

// lookForLeader asks all other voters at once, and stands for election if it comes to that. It tells whether the leader lives, as far
// as anybody says, or this is not for this peer to find out.
func (n *Node) lookForLeader(ctx context.Context, s *seat) (seen bool) {
	vs, err := s.servers()
	if err != nil || s.raft.State() != raft.Follower {
		return true
	}
	p := n.patience(s)
	begin, term, last := time.Now().Add(p.way), s.raft.CurrentTerm(), s.raft.LastIndex()
	var others []Voter
	votes := false
	for _, v := range vs {
		if s.is(v) {
			votes = v.Voting
		} else if v.Voting {
			others = append(others, v)
		}
	}
	if !votes {
		return true
	}
	said := n.sightings(ctx, s, others, p)
	stand, rank := judge(s.self.server(), last, said)
	switch {
	case s.heardSince(begin), slices.ContainsFunc(said, func(o sighting) bool { return o.answered && o.Leads }):
		return true
	case !stand:
		return slices.ContainsFunc(said, func(o sighting) bool { return o.answered && o.Hears })
	}
	sleep(ctx, time.Duration(rank)*p.step)
	if ctx.Err() != nil || s.raft.State() != raft.Follower || s.raft.CurrentTerm() != term || s.heardSince(begin) {
		return s.heardSince(begin) // somebody else stands, or leads
	}
	if !n.mayStand(ctx, s, others, p) {
		return false
	}
	n.cfg.Log.Info("the coordinator is gone for a majority of the voters; standing for election", "term", term, "silent for", time.Since(begin)+p.way)
	s.elect()
	return false // not before it is known who won
}

// sightings asks the voters. Each has a little longer to answer than it gives the leader.
func (n *Node) sightings(ctx context.Context, s *seat, voters []Voter, p patience) []sighting {
	leader, known := s.leader()
	out := make([]sighting, len(voters))
	var wg sync.WaitGroup
	for i, v := range voters {
		wg.Go(func() {
			limit := p.voter
			if known && v.Peer == leader {
				limit = p.leader
			}
			a, err := n.askSight(ctx, v.Peer, sightAsk{Generation: s.generation}, limit)
			out[i] = sighting{server: v.server(), answered: err == nil, sight: a}
		})
	}
	wg.Wait()
	return out
}

// askSight asks one voter, again if the question could not be put. A refused dial is an answer: nobody is there.
func (n *Node) askSight(ctx context.Context, peer taskstate.PeerID, ask sightAsk, limit time.Duration) (sight, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		a, err := n.callVoter(ctx, peer, voterAsk{Sight: &ask}, limit)
		switch {
		case err == nil && a.Sight != nil:
			return *a.Sight, nil
		case err == nil:
			return sight{}, fmt.Errorf("%s does not say whether it hears a leader", peer)
		case p2p.Refused(err):
			return sight{}, err
		}
		if sleep(ctx, askAgain); ctx.Err() != nil {
			return sight{}, err
		}
	}
}

// answerSight looks for the leader on behalf of another voter. Who does not hear it either has its own doubts from then on.
func (n *Node) answerSight(ctx context.Context, peer taskstate.PeerID, ask sightAsk) (voterAnswer, error) {
	s := n.currentSeat()
	if s == nil || s.generation != ask.Generation || s.unsound.Load() != nil {
		return voterAnswer{}, errNoSeat
	}
	if ask.Stand != "" && !n.mayAskToStand(s, peer, ask) {
		return voterAnswer{}, errors.New("only who holds a seat stands for election, in a term that can be")
	}
	_, stuck := s.store.Stuck() // one that waits for its own disk does not lead, whatever raft believes
	out := sight{Leads: s.raft.State() == raft.Leader && !stuck, Last: s.raft.LastIndex()}
	switch {
	case out.Leads || ask.Direct:
	case ask.Stand != "":
		// Whoever has begun an election of its own meanwhile lets nobody else.
		out.Lets = ask.Term >= s.raft.CurrentTerm() && n.stands.let(ask.Stand, ask.Term, time.Now(), n.patience(s).leader)
	case ask.Look:
		n.Doubt()
	default:
		if out.Hears = n.hears(ctx, s); !out.Hears {
			n.Doubt()
		}
	}
	return voterAnswer{Sight: &out}, nil
}

// hears tells whether the leader is heard from now. Who is asked by too many at once does not look, and accuses nobody.
func (n *Node) hears(ctx context.Context, s *seat) bool {
	leader, known := s.leader()
	if !known {
		return false
	}
	if n.looks.Add(1) > looksAtOnce {
		n.looks.Add(-1)
		return true
	}
	defer n.looks.Add(-1)
	p := n.patience(s)
	begin := time.Now().Add(p.way)
	a, err := n.askSight(ctx, leader, sightAsk{Generation: s.generation, Direct: true}, p.leader)
	return err == nil && a.Leads || s.heardSince(begin)
}

// heardSince tells whether raft had word from a leader after t.
func (s *seat) heardSince(t time.Time) bool { return s.raft.LastContact().After(t) }
