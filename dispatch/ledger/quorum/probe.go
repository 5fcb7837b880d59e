package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/taskstate"
)

// Only a peer that needs the coordinator looks whether it lives. Raft's heartbeats are rare (see
// raftPatience), because each wakes two processes up, and an idle cluster should sleep. What they
// are for, noticing that a coordinator is gone, is done on evidence instead: a raft stream from it
// broke, membership changed its verdict on a peer, or a call to it is not answered at once. Then
// each voter probes the leader, and asks the other voters whether they hear it. If a majority does
// not, the one among them with the longest log stands for election. Raft's own timers remain, as
// the last resort.
//
// Safety is raft's alone: the probe decides only who stands, and when.

const (
	// askLost is how often a peer without a seat asks the voters while nobody leads: what they have
	// lost, for callers that want to know.
	askLost = 2 * time.Second
	// passTo is how many voters such a peer tells that it waits for the coordinator: who has time
	// looks by itself, and some of them may be gone. Where everybody told all five, a large cluster
	// whose coordinator lacks time would have none for the election either.
	passTo = 2
	// probesAtOnce bounds the probes that are made for others at the same time.
	probesAtOnce = 16
)

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
		case s.raft.State() == raft.Candidate: // for ever, where too few have a vote left
			p.ask(ctx, p.others(), voterAsk{}, p.patience(s).voter) // whoever lost its log says so
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
			_ = pause.For(ctx, h/3) // the next suspicion is not looked into at once
		}
	}
}

// leaderless tells whether nobody is known here to coordinate.
func (p *prober) leaderless() bool {
	_, _, ok := p.dir.coordinator()
	return !ok
}

// passSuspicion tells some voters that somebody waits for the coordinator: they probe it, not this
// peer, which has no vote.
func (p *prober) passSuspicion(ctx context.Context) {
	who, _, _ := p.dir.coordinator()
	p.ask(ctx, passedTo(p.others(), who), voterAsk{Probe: &probeAsk{Generation: p.place.generation(), Look: true}}, heartbeat)
}

// passedTo takes passTo of the voters at random, and whom they are to look at only if there are not
// enough others.
func passedTo(voters []taskstate.PeerID, suspect taskstate.PeerID) []taskstate.PeerID {
	rand.Shuffle(len(voters), func(i, j int) { voters[i], voters[j] = voters[j], voters[i] })
	if i := slices.Index(voters, suspect); i >= 0 {
		voters = append(slices.Delete(voters, i, i+1), suspect)
	}
	return voters[:min(len(voters), passTo)]
}

// others are the voters but this one.
func (p *prober) others() (ids []taskstate.PeerID) {
	for _, v := range p.dir.list() {
		if v.Voting && v.Peer != p.cfg.Self {
			ids = append(ids, v.Peer)
		}
	}
	return ids
}

// ask asks voters, for what they learn from the question, and this peer from their answers,
// whatever it is about.
func (p *prober) ask(ctx context.Context, voters []taskstate.PeerID, ask voterAsk, limit time.Duration) {
	var wg sync.WaitGroup
	for _, v := range voters {
		wg.Go(func() { _, _ = p.call.ask(ctx, v, ask, limit) })
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
	stand = stand && p.place.unread.err() == nil && !p.stale.stale()
	switch {
	case s.heardSince(begin), slices.ContainsFunc(said, func(o probed) bool { return o.answered && o.Leads }):
		return true
	case !stand:
		return slices.ContainsFunc(said, func(o probed) bool { return o.answered && o.Hears })
	}
	_ = pause.For(ctx, time.Duration(rank)*wait.step)
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

// answer probes the leader on behalf of another voter. If this one does not hear it either, it
// suspects it from then on.
func (p *prober) answer(ctx context.Context, peer taskstate.PeerID, ask probeAsk) (voterAnswer, error) {
	s := p.place.seat.Load()
	if s == nil || s.generation != ask.Generation || s.unsound.Load() != nil {
		return voterAnswer{}, errNoSeat
	}
	if ask.Permit != "" && !p.mayAskPermit(s, peer, ask) {
		return voterAnswer{}, errors.New("only a peer that holds a seat stands for election, in a term that can be")
	}
	_, stuck := s.store.Stuck() // one that waits for its own disk does not lead, whatever raft believes
	out := probeAnswer{Leads: s.raft.State() == raft.Leader && !stuck, Last: s.raft.LastIndex()}
	switch {
	case out.Leads || ask.Direct:
	case ask.Permit != "":
		// A voter that has begun an election of its own meanwhile lets nobody else.
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
