package quorum

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/strain"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Two voters that stand for election at the same moment may each get their own vote and no other;
// raft tries again after its own patience, which is seconds. So a voter asks for a permit first:
// each voter permits one at a time, and so at most one is permitted by a majority. One that is
// refused tries again in a moment. This only keeps candidates apart: what counts is raft's vote.

// permitTries is how often a voter asks for permits before it probes the leader anew.
const permitTries = 4

// permits is which server this voter permits to stand for election. The zero value is ready for
// use.
type permits struct {
	mu     sync.Mutex
	holder string
	term   uint64 // after which it wants to stand; a permit for an earlier one is void
	until  time.Time
}

// grant tells whether a server may stand after a term, and refuses others for a while.
func (s *permits) grant(server string, term uint64, now time.Time, while time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if term < s.term || term == s.term && s.holder != server && now.Before(s.until) {
		return false
	}
	s.holder, s.term, s.until = server, term, now.Add(while)
	return true
}

// withdraw ends a permit, if this server has it.
func (s *permits) withdraw(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == server {
		s.until = time.Time{}
	}
}

// mayAskPermit tells whether a peer may ask for a permit: for itself, if it votes, and in a term
// that follows on what this voter knows.
func (p *prober) mayAskPermit(s *seat, peer taskstate.PeerID, ask probeAsk) bool {
	of, _, err := parseServer(ask.Permit)
	if err != nil || of != peer || !p.authority.seated(peer) {
		return false
	}
	if ask.Term > s.raft.CurrentTerm()+admission.MaxLeap {
		p.authority.refused.Note(peer, "a term that no honest peer can name")
		return false
	}
	return true
}

// getPermit asks the other voters to permit this one to stand for election. It gives up when
// another got so far, or the leader is heard.
func (p *prober) getPermit(ctx context.Context, s *seat, others []Voter, w patience) bool {
	begin, me := time.Now().Add(w.way), s.self.server()
	for range permitTries {
		if p.permits.grant(me, s.raft.CurrentTerm(), time.Now(), w.leader) {
			if p.permittedBy(ctx, s, others, w) {
				return true
			}
			p.permits.withdraw(me)
		}
		_ = pause.For(ctx, w.pause+rand.N(2*w.pause))
		if ctx.Err() != nil || s.heardSince(begin) {
			return false
		}
	}
	return false
}

// permittedBy tells whether a majority, this voter included, permits it to stand.
func (p *prober) permittedBy(ctx context.Context, s *seat, others []Voter, wait patience) bool {
	type word struct{ permits, said bool }
	words := make(chan word, len(others))
	for _, v := range others {
		go func() { // ends with the question, which has its limit
			a, err := p.probe(ctx, v.Peer, probeAsk{Generation: s.generation, Permit: s.self.server(), Term: s.raft.CurrentTerm()}, wait.leader)
			words <- word{permits: a.Permits, said: err == nil}
		}()
	}
	yes := 1
	for range others {
		w := <-words
		if w.said && !w.permits {
			return false // another is permitted; waiting for the silent would permit neither
		}
		if w.permits {
			yes++
		}
		if 2*yes > len(others)+1 {
			return true
		}
	}
	return false
}

// patience is how long a voter waits for others before and in an election. Up to a round trip of 75
// ms it is a heartbeat or so; beyond, it grows with the round trip, so that a living coordinator is
// not taken for a dead one, nor a question for one that nobody answers.
type patience struct {
	leader time.Duration // for the leader to say that it lives
	voter  time.Duration // for another voter to say whether it hears the leader, which it asks itself
	step   time.Duration // between two candidates: for the first to win before the second stands
	pause  time.Duration // between two tries to get permits, at least
	way    time.Duration // how old a word is when it arrives: what comes sooner was said before one began to listen
}

const (
	// rankStep is step on fast links: some round trips.
	rankStep = 75 * time.Millisecond
	// standPause is pause on fast links: long enough for another one to be elected.
	permitPause = 40 * time.Millisecond
)

// patienceFor is that of voters whose longest round trip is rtt. A question takes one, and another
// to open a stream for it.
func patienceFor(rtt time.Duration) patience {
	const h = heartbeat
	rtt = min(rtt, far.Away)
	leader := max(h, h/2+2*rtt)
	return patience{leader: leader, voter: leader + max(h/3, 2*rtt), step: max(rankStep, 2*rtt), pause: max(permitPause, rtt/2), way: rtt / 2}
}

// patience is for the voters of a seat, by what membership measured.
func (p *prober) patience(s *seat) patience {
	vs, err := s.servers()
	if err != nil {
		return patienceFor(0)
	}
	votes := map[taskstate.PeerID]bool{}
	for _, v := range vs {
		votes[v.Peer] = v.Voting
	}
	var rtt time.Duration
	for _, c := range p.cfg.Candidates() {
		if votes[c.Peer] && c.Peer != p.cfg.Self {
			rtt = max(rtt, cmp.Or(c.RTT, far.RTT(p.cfg.Net, c.Peer)))
		}
	}
	return patienceFor(rtt)
}

// probeAgain is how soon a probe that could not be sent is sent again: a dying process loses
// its connections one after the other, and only the dial after that is refused.
const probeAgain = 30 * time.Millisecond

// caller asks voters. With each question and answer go the marks that both know of, and with the
// answer what seat was lost.
type caller struct {
	net      dialer
	marks    *seenMarks
	place    *ownSeat
	identity *identity
	clocks   *clockTable
	learn    func(from taskstate.PeerID, shown []mark.Signed)
}

// ask asks one question.
func (k *caller) ask(ctx context.Context, peer taskstate.PeerID, ask voterAsk, timeout time.Duration) (voterAnswer, error) {
	var a voterAnswer
	timeout = far.For(k.net, peer, timeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := k.net.Dial(ctx, peer, VoterProtocol)
	if err != nil {
		return a, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(timeout))
	ask.Marks, ask.Clock = k.marks.show(k.place.seat.Load()), k.clocks.own()
	wire.Clip(&ask, k.place.rep.Spoken())
	if err := wire.NewWriter(c, raftHelloCap).Send(ask); err != nil {
		return a, err
	}
	if err := wire.NewReader(c, raftHelloCap).Read(&a); err != nil {
		return a, err
	}
	k.clocks.hear(peer, a.Clock)
	k.identity.hearLoss(peer, a.Lost)
	k.learn(peer, a.Marks)
	if !a.OK {
		return a, fmt.Errorf("%s: %s", peer, a.Why)
	}
	return a, nil
}

// prober finds out whether a leader that is suspected lives, stands for election if a majority does
// not hear it, and answers the other voters who find out. It owns which of them this voter permits
// to stand.
type prober struct {
	cfg       *Config
	place     *ownSeat
	dir       *directory
	authority *authority
	wakes     *wakes
	call      *caller
	stale     *staleness
	permits   permits
	looking   atomic.Int32 // questions about the leader that are looked into now
}

// probe asks one voter, again if the question could not be sent. A refused dial is an answer: no
// process is there.
func (p *prober) probe(ctx context.Context, peer taskstate.PeerID, ask probeAsk, limit time.Duration) (probeAnswer, error) {
	ctx, cancel := strain.Timeout(ctx, limit)
	defer cancel()
	for {
		a, err := p.call.ask(ctx, peer, voterAsk{Probe: &ask}, strain.Most*limit)
		switch {
		case err == nil && a.Probe != nil:
			return *a.Probe, nil
		case err == nil:
			return probeAnswer{}, fmt.Errorf("%s does not say whether it hears a leader", peer)
		case p2p.Refused(err):
			return probeAnswer{}, err
		}
		if pause.For(ctx, probeAgain) != nil {
			return probeAnswer{}, err
		}
	}
}
