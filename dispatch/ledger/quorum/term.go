package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// runTerms follows raft's word on leadership until ctx ends: a term of our own for every time it is
// gained.
func (n *Node) runTerms(ctx context.Context, lead func(context.Context, taskstate.Epoch)) {
	up := n.alreadyLeads()
	for {
		for !up {
			select {
			case up = <-n.notify:
			case <-ctx.Done():
				return
			}
		}
		up = n.runTerm(ctx, lead)
	}
}

// alreadyLeads empties what raft said before anybody listened.
func (n *Node) alreadyLeads() (up bool) {
	for {
		select {
		case up = <-n.notify:
		default:
			return up
		}
	}
}

// runTerm serves one term. Its context ends the moment raft says that leadership is lost; it
// returns when everything in it has.
func (n *Node) runTerm(ctx context.Context, lead func(context.Context, taskstate.Epoch)) (up bool) {
	tctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.serveTerm(tctx, lead)
	}()
	select {
	case up = <-n.notify:
	case <-ctx.Done():
	}
	cancel()
	<-done
	return up
}

// serveTerm establishes the term and leads in it: the barrier of the term first, so that everything
// decided before is applied here; then the Lead entry, so that everybody knows; then the
// coordinator's loop and the voters' rules.
func (n *Node) serveTerm(ctx context.Context, lead func(context.Context, taskstate.Epoch)) {
	s := n.currentSeat()
	if s == nil {
		return
	}
	term := s.raft.CurrentTerm()
	if err := s.raft.Barrier(0).Error(); err != nil || s.raft.State() != raft.Leader || s.raft.CurrentTerm() != term || ctx.Err() != nil {
		return
	}
	n.relax(s, true)
	context.AfterFunc(ctx, func() { n.relax(s, false) }) // at once, not when lead has returned
	l := &leading{epoch: taskstate.At(s.generation, term), seat: s, queue: make(chan *proposal, queueLen), over: make(chan struct{})}
	n.rep.Read(func(s *ledger.State) { l.stamps = ledger.NewStamps(s.Stamp(), n.cfg.Now()) })
	proposals := make(chan struct{})
	go func() {
		defer close(proposals)
		l.runProposals(ctx, n)
	}()
	defer func() {
		n.lead.CompareAndSwap(l, nil)
		s.store.Await(proposals)
	}()
	if err := l.announce(ctx); err != nil {
		n.cfg.Log.Debug("elected, but could not say so", "epoch", l.epoch, "err", err)
		<-ctx.Done()
		return
	}
	n.lead.Store(l)
	n.confirmVoters(s)
	n.setCoordinator(n.cfg.Self, l.epoch)
	n.cfg.Log.Info("coordinating", "epoch", l.epoch.String())
	defer n.endTerm(l)
	tended := make(chan struct{})
	go func() {
		defer close(tended)
		n.tend(ctx, s)
	}()
	if lead != nil {
		lead(ctx, l.epoch)
	}
	<-ctx.Done()
	<-tended
}

// announce writes the Lead entry, the first of the term.
func (l *leading) announce(ctx context.Context) error {
	p, err := newProposal([]ledger.Command{{Lead: &ledger.Lead{Chain: true}}})
	if err != nil {
		return err
	}
	l.queue <- p // of length queueLen, and nobody else knows it yet
	select {
	case d := <-p.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endTerm says that this peer does not coordinate any more, unless somebody else is known to
// already.
func (n *Node) endTerm(l *leading) {
	n.lead.CompareAndSwap(l, nil)
	n.mu.Lock()
	mine := n.coord == n.cfg.Self && n.epoch == l.epoch
	n.mu.Unlock()
	if mine {
		n.setCoordinator("", taskstate.Epoch{})
	}
	n.cfg.Log.Info("no longer coordinating", "epoch", l.epoch.String())
	n.kick()
}

// relax makes the heartbeats of a leader rarer than a follower's patience demands. Raft derives the
// interval between two heartbeats from the leader's own patience (a tenth of it, to a fifth). A
// leader has no use for patience, so it may take more: fifteen quarters of the lease put heartbeats
// three eighths to three quarters of a lease apart. The lease still sees one in time, a follower
// hears two before it loses patience, and that depends on its own patience alone.
func (n *Node) relax(s *seat, leader bool) {
	heartbeat, election, lease := raftTimers(n.cfg.Timings)
	err := s.reload(func(c *raft.ReloadableConfig) {
		c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election
		if leader {
			c.HeartbeatTimeout = max(heartbeat, 15*lease/4)
			c.ElectionTimeout = max(c.ElectionTimeout, c.HeartbeatTimeout)
		}
	})
	if err != nil {
		n.cfg.Log.Warn("raft refuses its timers", "err", err)
	}
}

// leaderMoved hears from raft that there is another leader, or none. Without one no peer coordinates
// as far as this voter knows; with one, runFollow asks it for the epoch.
func (n *Node) leaderMoved(s *seat) {
	peer, ok := s.leader()
	n.mu.Lock()
	mine := n.seat == s && slices.ContainsFunc(n.voters, func(v Voter) bool { return v.Voting && s.is(v) })
	if ok {
		n.heard[peer] = time.Now()
	}
	lost := mine && n.coord != "" && n.coord != n.cfg.Self && n.coord != peer
	n.mu.Unlock()
	if lost || !ok && mine && n.lead.Load() == nil {
		n.setCoordinator("", taskstate.Epoch{})
	}
	if !ok {
		n.SuspectLeader() // from now on this peer looks by itself
	}
	n.kick()
}
