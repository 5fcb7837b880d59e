package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/taskstate"
)

const (
	changeTimeout = 10 * time.Second       // for raft to accept a change of the configuration
	hurry         = 100 * time.Millisecond // between looks while somebody catches up
	caughtUp      = 256                    // entries behind that count as none: they come with the next message
	contentFor    = 5                      // times as long between looks while all voters live and nothing is to be done
	absentFor     = 10 * time.Second       // who asked to be let go is not asked back sooner
)

// electorate keeps the voters as the rules want them while this peer coordinates, and arranges that
// peers can go: another voter, or this one. It owns who asked to be let go.
type electorate struct {
	cfg      *Config
	place    *ownSeat
	dir      *directory
	identity *identity
	terms    *terms
	wakes    *wakes
	call     *caller
	remember func([]Voter) // as contacts, on disk

	handing atomic.Bool // a handover is under way: leave the voters alone

	mu     sync.Mutex
	absent map[taskstate.PeerID]time.Time // who asked to be let go, until when
}

// tend looks at the voters' rules while this peer leads: when it begins to, when membership
// changes, and on a timer.
func (e *electorate) tend(ctx context.Context, s *seat) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wakes.voters:
		case <-t.C:
		}
		again, err := e.tendOnce(ctx, s)
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Info("the voters could not be changed, will try again", "err", err)
		}
		switch {
		case again && err == nil:
			t.Reset(hurry)
		case err == nil && len(e.missing()) == 0:
			t.Reset(contentFor * tendEvery) // what changes that is told: see Reconsider
		default:
			t.Reset(tendEvery)
		}
	}
}

// tendOnce takes one step of the plan. again tells whether the next is due soon.
func (e *electorate) tendOnce(ctx context.Context, s *seat) (again bool, err error) {
	if e.handing.Load() {
		return false, nil
	}
	if err := s.config.LockUntil(ctx); err != nil {
		return false, nil
	}
	defer s.config.Unlock()
	servers, err := s.servers()
	if err != nil {
		return false, err
	}
	e.remember(servers)
	cands := e.candidates()
	views, orphan := e.askListeners(ctx, s, servers, cands)
	c := planVoters(planInput{Self: e.cfg.Self, Servers: views, Candidates: cands, Now: e.cfg.Now(), Replace: replaceAfter, Shrink: shrinkAfter})
	if c.Kind == changeNone && orphan != nil {
		c = change{Kind: changeRemove, Servers: []Voter{*orphan}, Why: "it no longer has its log"}
	}
	listening := slices.ContainsFunc(servers, func(v Voter) bool { return !v.Voting })
	if c.Kind == changeNone {
		return listening, nil
	}
	e.cfg.Log.Info("changing the voters", "what", c.Kind, "who", c.Servers, "instead of", c.Old.Peer, "why", c.Why)
	return true, e.carryOut(ctx, s, c)
}

// candidates is the node's list, with those that asked to be let go counted as away.
func (e *electorate) candidates() []Candidate {
	cs := slices.Clone(e.cfg.Candidates())
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, c := range cs {
		if until, ok := e.absent[c.Peer]; ok && now.Before(until) {
			cs[i].Alive = false
		} else if ok {
			delete(e.absent, c.Peer)
		}
	}
	return cs
}

// askListeners asks the servers that listen how far they are. orphan is one that lives and has no
// such seat.
func (e *electorate) askListeners(ctx context.Context, s *seat, servers []Voter, cands []Candidate) (views []seatView, orphan *Voter) {
	views = make([]seatView, len(servers))
	none := make([]bool, len(servers))
	var wg sync.WaitGroup
	for i, v := range servers {
		views[i].Voter = v
		if v.Voting || !slices.ContainsFunc(cands, func(c Candidate) bool { return c.Peer == v.Peer && c.Alive }) {
			continue
		}
		wg.Go(func() {
			a, err := e.call.ask(ctx, v.Peer, voterAsk{Status: &seatAsk{Generation: s.generation, Server: v.server()}}, voterTimeout)
			has := err == nil && a.Last > 0 // 0: it never heard the leader, or lacks what a voter has to know
			views[i].Ready = has && a.Last+caughtUp >= s.raft.LastIndex()
			none[i] = a.None
		})
	}
	wg.Wait()
	for i := range servers {
		if none[i] {
			orphan = &servers[i]
		}
	}
	return views, orphan
}

// carryOut makes one change. Promotions go back to back: the configuration is even for as short as
// can be.
func (e *electorate) carryOut(ctx context.Context, s *seat, c change) error {
	switch c.Kind {
	case changeAdd:
		for _, v := range c.Servers {
			if err := e.addListener(ctx, s, v); err != nil {
				return err
			}
		}
		return nil
	case changeReplace:
		if err := s.remove(c.Old); err != nil {
			return err
		}
	case changeRemove:
		for _, v := range c.Servers {
			if err := s.remove(v); err != nil {
				return err
			}
		}
		return nil
	}
	for _, v := range c.Servers {
		if err := s.promote(v); err != nil {
			return err
		}
	}
	return nil
}

// addListener asks a peer to take a seat and adds it, not voting.
func (e *electorate) addListener(ctx context.Context, s *seat, v Voter) error {
	if _, err := e.call.ask(ctx, v.Peer, voterAsk{Prepare: &seatAsk{Generation: s.generation, Server: v.server()}}, voterTimeout); err != nil {
		return fmt.Errorf("prepare a voter: %w", err)
	}
	id := v.server()
	return s.ask(func() raft.Future {
		return s.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), 0, changeTimeout)
	})
}

func (s *seat) promote(v Voter) error {
	id := v.server()
	return s.ask(func() raft.Future {
		return s.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(id), 0, changeTimeout)
	})
}

func (s *seat) remove(v Voter) error {
	return s.ask(func() raft.Future { return s.raft.RemoveServer(raft.ServerID(v.server()), 0, changeTimeout) })
}

func (e *electorate) missing() []taskstate.PeerID {
	alive := aliveAmong(e.cfg.Candidates(), e.identity.server())
	var out []taskstate.PeerID
	for _, v := range e.dir.list() {
		if v.Voting && !alive(v) {
			out = append(out, v.Peer)
		}
	}
	slices.Sort(out)
	return out
}

// aliveAmong tells of a voter whether this very life of it was seen alive.
func aliveAmong(cs []Candidate, self Voter) func(Voter) bool {
	return func(v Voter) bool {
		return v.Peer == self.Peer && v.Incarnation == self.Incarnation || slices.ContainsFunc(cs, func(c Candidate) bool {
			return c.Peer != self.Peer && c.Peer == v.Peer && c.Alive && c.Incarnation == v.Incarnation
		})
	}
}
