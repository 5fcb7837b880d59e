package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"covey/taskstate"
)

const (
	changeTimeout = 10 * time.Second       // for raft to accept a change of the configuration
	hurry         = 100 * time.Millisecond // between looks while somebody catches up
	caughtUp      = 256                    // entries behind that count as none: they come with the next message
	contentFor    = 5                      // times as long between looks while all voters live and nothing is to be done
	absentFor     = 10 * time.Second       // who asked to be let go is not asked back sooner
)

// configLock lets one change of the configuration be worked out and made at a time.
type configLock chan struct{}

func newConfigLock() configLock { return make(configLock, 1) }

func (l configLock) lock(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l configLock) unlock() { <-l }

// tend looks at the voters' rules while this peer leads: when it begins to, when membership
// changes, and on a timer.
func (n *Node) tend(ctx context.Context, s *seat) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.tendNow:
		case <-t.C:
		}
		again, err := n.tendOnce(ctx, s)
		if err != nil && ctx.Err() == nil {
			n.cfg.Log.Info("the voters could not be changed, will try again", "err", err)
		}
		switch {
		case again && err == nil:
			t.Reset(hurry)
		case err == nil && len(n.Missing()) == 0:
			t.Reset(contentFor * n.cfg.Timings.Tend) // what changes that is told: see Reconsider
		default:
			t.Reset(n.cfg.Timings.Tend)
		}
	}
}

// tendOnce takes one step of the plan. again tells whether the next is due soon.
func (n *Node) tendOnce(ctx context.Context, s *seat) (again bool, err error) {
	if n.handing.Load() {
		return false, nil
	}
	if err := s.config.lock(ctx); err != nil {
		return false, nil
	}
	defer s.config.unlock()
	servers, err := s.servers()
	if err != nil {
		return false, err
	}
	n.setContacts(servers)
	cands := n.candidates()
	views, orphan := n.look(ctx, s, servers, cands)
	t := n.cfg.Timings
	c := planVoters(planInput{Self: n.cfg.Self, Servers: views, Candidates: cands, Now: n.cfg.Now(), Replace: t.Replace, Shrink: t.Shrink})
	if c.Kind == changeNone && orphan != nil {
		c = change{Kind: changeRemove, Servers: []Voter{*orphan}, Why: "it no longer has its log"}
	}
	listening := slices.ContainsFunc(servers, func(v Voter) bool { return !v.Voting })
	if c.Kind == changeNone {
		return listening, nil
	}
	n.cfg.Log.Info("changing the voters", "what", c.Kind, "who", c.Servers, "instead of", c.Old.Peer, "why", c.Why)
	return true, n.carryOut(ctx, s, c)
}

// servers is the latest configuration; the leader's is the committed one or about to be.
func (s *seat) servers() ([]Voter, error) {
	f := s.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	return votersOf(f.Configuration()), nil
}

// candidates is the node's list, with those that asked to be let go counted as away.
func (n *Node) candidates() []Candidate {
	cs := slices.Clone(n.cfg.Candidates())
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, c := range cs {
		if until, ok := n.absent[c.Peer]; ok && now.Before(until) {
			cs[i].Alive = false
		} else if ok {
			delete(n.absent, c.Peer)
		}
	}
	return cs
}

// look asks the servers that listen how far they are. orphan is one that lives and has no such
// seat.
func (n *Node) look(ctx context.Context, s *seat, servers []Voter, cands []Candidate) (views []seatView, orphan *Voter) {
	views = make([]seatView, len(servers))
	none := make([]bool, len(servers))
	var wg sync.WaitGroup
	for i, v := range servers {
		views[i].Voter = v
		if v.Voting || !slices.ContainsFunc(cands, func(c Candidate) bool { return c.Peer == v.Peer && c.Alive }) {
			continue
		}
		wg.Go(func() {
			a, err := n.callVoter(ctx, v.Peer, voterAsk{Status: &seatAsk{Generation: s.generation, Server: v.server()}}, voterTimeout)
			views[i].Ready = err == nil && a.Last+caughtUp >= s.raft.LastIndex()
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
func (n *Node) carryOut(ctx context.Context, s *seat, c change) error {
	switch c.Kind {
	case changeAdd:
		for _, v := range c.Servers {
			if err := n.addListener(ctx, s, v); err != nil {
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
func (n *Node) addListener(ctx context.Context, s *seat, v Voter) error {
	if _, err := n.callVoter(ctx, v.Peer, voterAsk{Prepare: &seatAsk{Generation: s.generation, Server: v.server()}}, voterTimeout); err != nil {
		return fmt.Errorf("prepare a voter: %w", err)
	}
	id := v.server()
	return s.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), 0, changeTimeout).Error()
}

func (s *seat) promote(v Voter) error {
	id := v.server()
	return s.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(id), 0, changeTimeout).Error()
}

func (s *seat) remove(v Voter) error {
	return s.raft.RemoveServer(raft.ServerID(v.server()), 0, changeTimeout).Error()
}

// HasQuorum tells whether decisions can be made now, as far as this peer knows.
func (n *Node) HasQuorum() bool {
	ok, _ := n.InSync()
	return ok
}

// Missing lists the voters that do not answer, for messages. It goes by what membership says, and
// by name.
func (n *Node) Missing() []taskstate.PeerID {
	alive := aliveAmong(n.cfg.Candidates(), n.server())
	var out []taskstate.PeerID
	for _, v := range n.Voters() {
		if v.Voting && !alive(v) {
			out = append(out, v.Peer)
		}
	}
	slices.Sort(out)
	return out
}

// server is this peer's seat, or the one it would take.
func (n *Node) server() Voter { return Voter{Peer: n.cfg.Self, Incarnation: n.SeatIncarnation()} }

// aliveAmong tells of a voter whether this very life of it was seen alive.
func aliveAmong(cs []Candidate, self Voter) func(Voter) bool {
	return func(v Voter) bool {
		return v.Peer == self.Peer && v.Incarnation == self.Incarnation || slices.ContainsFunc(cs, func(c Candidate) bool {
			return c.Peer != self.Peer && c.Peer == v.Peer && c.Alive && c.Incarnation == v.Incarnation
		})
	}
}
