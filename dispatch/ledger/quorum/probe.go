package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"covey/p2p"
	"covey/taskstate"
)

// Only a peer that needs the coordinator looks whether it lives. Raft's heartbeats are rare (see
// raftPatience), because each wakes two processes up, and an idle cluster should sleep. What they are
// for, noticing that a coordinator is gone, is done on evidence instead: a raft stream from it
// broke, membership changed its verdict on a peer, or a call to it is not answered at once. Then
// each voter probes the leader, and asks the other voters whether they hear it. If a majority does
// not, the one among them with the longest log stands for election. Raft's own timers remain, as
// the last resort.
//
// Safety is raft's alone: the probe decides only who stands, and when.

const (
	// probeAgain is how soon a probe that could not be sent is sent again: a dying process loses
	// its connections one after the other, and only the dial after that is refused.
	probeAgain = 30 * time.Millisecond
	// askLost is how often a peer without a seat asks the voters while nobody leads: what they have
	// lost, for whoever wants to know.
	askLost = 2 * time.Second
	// probesAtOnce bounds the probes that are made for others at the same time.
	probesAtOnce = 16
)

// probeAsk asks a voter about the leader of a generation.
type probeAsk struct {
	Generation uint64 `cbor:"1,keyasint"`
	Direct     bool   `cbor:"2,keyasint,omitempty"` // say only whether it is you
	Look       bool   `cbor:"3,keyasint,omitempty"` // the same, and look for yourself: somebody without a vote waits for the leader
	Permit     string `cbor:"4,keyasint,omitempty"` // this server wants to stand for election: say whether you permit it
	Term       uint64 `cbor:"5,keyasint,omitempty"` // after this term
}

// probeAnswer is what a voter answers.
type probeAnswer struct {
	Leads   bool   `cbor:"1,keyasint,omitempty"` // it is I
	Hears   bool   `cbor:"2,keyasint,omitempty"` // I do not lead, but heard the leader since you asked
	Last    uint64 `cbor:"3,keyasint,omitempty"` // the end of my log
	Permits bool   `cbor:"4,keyasint,omitempty"` // it may stand; I do not, and I permit no other for a while
}

// probed is one voter's answer, or its silence.
type probed struct {
	server   string
	answered bool
	probeAnswer
}

// judgeProbes tells from the answers of all other voters whether a voter with this log stands for
// election, and after how many others. Everybody who has the same answers comes to the same order.
// A majority must be without a leader, as in raft's own pre-vote, so that one broken link deposes
// nobody.
func judgeProbes(self string, last uint64, others []probed) (stand bool, rank int) {
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

// prober finds out whether a leader that is suspected lives, stands for election if a majority does
// not hear it, and answers the other voters who find out. It owns which of them this voter permits
// to stand.
type prober struct {
	cfg       *Config
	place     *place
	dir       *directory
	authority *authority
	wakes     *wakes
	call      *caller
	permits   permits
	looking   atomic.Int32 // questions about the leader that are looked into now
}

// run probes a leader that is suspected, until ctx ends. While this voter knows no leader it
// looks by itself, every one to two heartbeats: not at once, for another may be about to be
// elected.
func (p *prober) run(ctx context.Context) {
	const h = heartbeat
	t := time.NewTimer(h + rand.N(h))
	defer t.Stop()
	alone := true // no leader was known when the timer was set; while it runs, it alone makes this peer look
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			alone = true
		case <-p.wakes.suspect:
			if s := p.place.seat.Load(); alone && s != nil && !s.hasLeader() {
				continue
			}
			alone = false
		}
		s := p.place.seat.Load()
		seen := true
		switch {
		case s == nil:
			if !alone || p.leaderless() {
				p.passSuspicion(ctx)
			}
		case s.raft.State() == raft.Leader:
		case alone || s.hasLeader():
			seen = p.probeLeader(ctx, s)
		}
		// Raft goes on knowing a leader for seconds after its end: as long as nobody has seen it
		// alive, it stays suspected.
		if alone = s != nil && !(seen && s.hasLeader()); alone {
			t.Reset(h + rand.N(h))
		} else if s == nil && p.leaderless() {
			t.Reset(askLost)
		} else {
			sleep(ctx, h/3) // the next suspicion is not looked into at once
		}
	}
}

// leaderless tells whether nobody is known here to coordinate.
func (p *prober) leaderless() bool {
	_, _, ok := p.dir.coordinator()
	return !ok
}

// hasLeader tells whether raft knows a leader, this server included.
func (s *seat) hasLeader() bool {
	_, known := s.leader()
	return known
}

// passSuspicion tells the voters that somebody waits for the coordinator: they probe it, not this
// peer, which has no vote.
func (p *prober) passSuspicion(ctx context.Context) {
	g := p.place.generation()
	var wg sync.WaitGroup
	for _, v := range p.dir.list() {
		if v.Voting && v.Peer != p.cfg.Self {
			wg.Go(func() {
				_, _ = p.call.ask(ctx, v.Peer, voterAsk{Probe: &probeAsk{Generation: g, Look: true}}, heartbeat)
			})
		}
	}
	wg.Wait()
}

// probeLeader asks all other voters at once, and stands for election if it comes to that. It tells
// whether the leader lives, as far as any of them says, or this is not for this peer to find out.
func (p *prober) probeLeader(ctx context.Context, s *seat) (seen bool) {
	vs, err := s.servers()
	if err != nil || s.raft.State() != raft.Follower {
		return true
	}
	wait := p.patience(s)
	begin, term, last := time.Now().Add(wait.way), s.raft.CurrentTerm(), s.raft.LastIndex()
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
	said := p.probeVoters(ctx, s, others, wait)
	stand, rank := judgeProbes(s.self.server(), last, said)
	stand = stand && p.place.unread.err() == nil
	switch {
	case s.heardSince(begin), slices.ContainsFunc(said, func(o probed) bool { return o.answered && o.Leads }):
		return true
	case !stand:
		return slices.ContainsFunc(said, func(o probed) bool { return o.answered && o.Hears })
	}
	sleep(ctx, time.Duration(rank)*wait.step)
	if ctx.Err() != nil || s.raft.State() != raft.Follower || s.raft.CurrentTerm() != term || s.heardSince(begin) {
		return s.heardSince(begin) // somebody else stands, or leads
	}
	if !p.getPermit(ctx, s, others, wait) {
		return false
	}
	p.cfg.Log.Info("the coordinator is gone for a majority of the voters; standing for election", "term", term, "silent for", time.Since(begin)+wait.way)
	s.elect()
	return false // not before it is known who won
}

// probeVoters asks the voters. Each has a little longer to answer than it gives the leader.
func (p *prober) probeVoters(ctx context.Context, s *seat, voters []Voter, wait patience) []probed {
	leader, known := s.leader()
	out := make([]probed, len(voters))
	var wg sync.WaitGroup
	for i, v := range voters {
		wg.Go(func() {
			limit := wait.voter
			if known && v.Peer == leader {
				limit = wait.leader
			}
			a, err := p.probe(ctx, v.Peer, probeAsk{Generation: s.generation}, limit)
			out[i] = probed{server: v.server(), answered: err == nil, probeAnswer: a}
		})
	}
	wg.Wait()
	return out
}

// probe asks one voter, again if the question could not be sent. A refused dial is an answer: no
// process is there.
func (p *prober) probe(ctx context.Context, peer taskstate.PeerID, ask probeAsk, limit time.Duration) (probeAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		a, err := p.call.ask(ctx, peer, voterAsk{Probe: &ask}, limit)
		switch {
		case err == nil && a.Probe != nil:
			return *a.Probe, nil
		case err == nil:
			return probeAnswer{}, fmt.Errorf("%s does not say whether it hears a leader", peer)
		case p2p.Refused(err):
			return probeAnswer{}, err
		}
		if sleep(ctx, probeAgain); ctx.Err() != nil {
			return probeAnswer{}, err
		}
	}
}

// answer probes the leader on behalf of another voter. If this one does not hear it either, it
// suspects it from then on.
func (p *prober) answer(ctx context.Context, peer taskstate.PeerID, ask probeAsk) (voterAnswer, error) {
	s := p.place.seat.Load()
	if s == nil || s.generation != ask.Generation || s.unsound.Load() != nil {
		return voterAnswer{}, errNoSeat
	}
	if ask.Permit != "" && !p.mayAskPermit(s, peer, ask) {
		return voterAnswer{}, errors.New("only who holds a seat stands for election, in a term that can be")
	}
	_, stuck := s.store.Stuck() // one that waits for its own disk does not lead, whatever raft believes
	out := probeAnswer{Leads: s.raft.State() == raft.Leader && !stuck, Last: s.raft.LastIndex()}
	switch {
	case out.Leads || ask.Direct:
	case ask.Permit != "":
		// Whoever has begun an election of its own meanwhile lets nobody else.
		out.Permits = ask.Term >= s.raft.CurrentTerm() && p.permits.grant(ask.Permit, ask.Term, time.Now(), p.patience(s).leader)
	case ask.Look:
		p.wakes.suspect.Set()
	default:
		if out.Hears = p.hears(ctx, s); !out.Hears {
			p.wakes.suspect.Set()
		}
	}
	return voterAnswer{Probe: &out}, nil
}

// hears tells whether the leader is heard from now. A voter that is asked by too many at once does
// not look, and reports no leader missing.
func (p *prober) hears(ctx context.Context, s *seat) bool {
	leader, known := s.leader()
	if !known {
		return false
	}
	if p.looking.Add(1) > probesAtOnce {
		p.looking.Add(-1)
		return true
	}
	defer p.looking.Add(-1)
	wait := p.patience(s)
	begin := time.Now().Add(wait.way)
	a, err := p.probe(ctx, leader, probeAsk{Generation: s.generation, Direct: true}, wait.leader)
	return err == nil && a.Leads || s.heardSince(begin)
}

// heardSince tells whether raft had word from a leader after t.
func (s *seat) heardSince(t time.Time) bool { return s.raft.LastContact().After(t) }
