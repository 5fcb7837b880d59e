package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// ErrSoleVoter refuses to take the vote from the only one that has it.
var ErrSoleVoter = errors.New("it is the only voter: the ledger is nowhere else; start another peer and let it join first")

// Handover prepares the cluster for this peer's stop. If those who stay would not be a majority of
// the voters, the configuration shrinks to them, one committed change at a time; if nobody else
// votes, a live peer becomes the voter first. A coordinator then hands leadership over, so that
// there is no gap. It returns when somebody else coordinates or nothing needs doing, and the
// context's error if that takes too long: stopping then is what a crash would be. Run must be
// running.
func (n *Node) Handover(ctx context.Context) error {
	if n.currentSeat() == nil {
		return nil
	}
	n.handing.Store(true)
	defer n.handing.Store(false)
	for ctx.Err() == nil {
		wait := n.changed.wait()
		done, err := n.handOn(ctx)
		if done {
			return err
		}
		if err != nil {
			n.cfg.Log.Debug("handing over", "err", err)
		}
		select {
		case <-wait:
		case <-time.After(hurry):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// handOn takes one step of a handover: as coordinator it arranges what it can and transfers
// leadership, then asks its successor to be let go.
func (n *Node) handOn(ctx context.Context) (done bool, err error) {
	s := n.currentSeat()
	if s == nil {
		return true, nil
	}
	if n.lead.Load() == nil {
		coord, _, ok := n.Coordinator()
		if !ok || coord == n.cfg.Self {
			return false, nil
		}
		_, err := n.callVoter(ctx, coord, voterAsk{Leave: &s.self}, leaveTimeout)
		return err == nil, err
	}
	if err := n.letGo(ctx, s.self); err != nil {
		return errors.Is(err, ErrSoleVoter), nil
	}
	successor, ok, err := n.successor(s)
	if err != nil || !ok {
		return false, err
	}
	return false, s.transfer(ctx, successor) // the successor is asked next, as soon as it is known
}

// transfer makes successor the leader. Raft must not lose leadership for another reason meanwhile:
// it would believe in a transfer under way for ever, and refuse every proposal when it is elected
// again (hashicorp/raft#696). So the majority is asked first.
func (s *seat) transfer(ctx context.Context, successor Voter) error {
	if err := s.verified(ctx); err != nil {
		return err
	}
	id := successor.server()
	return s.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(id)).Error()
}

// verified tells whether a majority still takes this server for the leader. Raft answers that only
// when enough of those it asked have answered: if one of them leaves the configuration meanwhile,
// never.
func (s *seat) verified(ctx context.Context) error {
	asked := make(chan error, 1)
	go func() { asked <- s.raft.VerifyLeader().Error() }() // ends at the latest when this server leads no more
	limit := time.NewTimer(raftTimeout)
	defer limit.Stop()
	select {
	case err := <-asked:
		return err
	case <-limit.C:
		return errors.New("no majority says in time that this is the leader")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// successor is a live voter other than this peer.
func (n *Node) successor(s *seat) (Voter, bool, error) {
	servers, err := s.servers()
	if err != nil {
		return Voter{}, false, err
	}
	alive := aliveAmong(n.candidates(), n.server())
	for _, v := range servers {
		if v.Voting && !s.is(v) && alive(v) {
			return v, true, nil
		}
	}
	return Voter{}, false, nil
}

// letGo arranges, as coordinator, that leaving can stop: the living decide without it. When leaving
// is this peer itself, everything but its own removal is done; its successor does that.
func (n *Node) letGo(ctx context.Context, leaving Voter) error {
	s, done, err := n.without(ctx, leaving.Peer)
	if err != nil {
		return err
	}
	defer done()
	for ctx.Err() == nil {
		servers, err := s.servers()
		if err != nil {
			return err
		}
		voters := slices.DeleteFunc(servers, func(v Voter) bool { return !v.Voting })
		me := slices.IndexFunc(voters, func(v Voter) bool { return v.Peer == leaving.Peer && v.Incarnation == leaving.Incarnation })
		if me < 0 {
			return nil // it does not vote
		}
		alive := aliveAmong(n.candidates(), n.server())
		others := slices.ContainsFunc(voters, func(v Voter) bool { return v != voters[me] && alive(v) })
		if !others {
			if err := n.appoint(ctx, s, voters[me]); err != nil {
				return err
			}
			continue
		}
		next, ok := planHandover(voters, voters[me], alive)
		if !ok || s.is(next) {
			return nil
		}
		n.cfg.Log.Info("changing the voters", "what", changeRemove, "who", next, "why", leaving.Peer+" stops")
		if err := s.remove(next); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// without is how a change of the voters begins at the coordinator when a peer goes: nobody else
// changes them until done is called, and that peer is not made a voter again for a while.
func (n *Node) without(ctx context.Context, peer taskstate.PeerID) (s *seat, done func(), err error) {
	l := n.lead.Load()
	if l == nil {
		return nil, nil, n.notCoordinator()
	}
	if err := l.seat.config.lock(ctx); err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	n.absent[peer] = time.Now().Add(absentFor)
	n.mu.Unlock()
	return l.seat, l.seat.config.unlock, nil
}

// appoint makes some live peer a voter, beside a last one that leaves.
func (n *Node) appoint(ctx context.Context, s *seat, leaving Voter) error {
	cs := slices.DeleteFunc(n.candidates(), func(c Candidate) bool {
		return !c.Alive || !c.Eligible || c.Peer == leaving.Peer || c.Incarnation == ""
	})
	var errs []error
	for _, c := range cs {
		v := Voter{Peer: c.Peer, Incarnation: c.Incarnation}
		err := n.addListener(ctx, s, v)
		if err == nil {
			err = n.awaitReady(ctx, s, v)
		}
		if err == nil {
			err = s.promote(v)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, ErrSoleVoter)...)
}

// awaitReady waits until a listener has caught up.
func (n *Node) awaitReady(ctx context.Context, s *seat, v Voter) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		a, err := n.callVoter(ctx, v.Peer, voterAsk{Status: &seatAsk{Generation: s.generation, Server: v.server()}}, voterTimeout)
		if err == nil && a.Last+caughtUp >= s.raft.LastIndex() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not catch up: %w", v.Peer, ctx.Err())
		case <-time.After(hurry / 4):
		}
	}
}

// RemoveVoter takes the vote from a peer for good, before it is removed from the cluster: call it on
// the coordinator, before the Remove decision. It fails with ErrSoleVoter, and with
// ErrNotCoordinator here and when the peer is this one: leadership is on its way to another then,
// to whom the caller forwards.
func (n *Node) RemoveVoter(ctx context.Context, peer taskstate.PeerID) error {
	s, done, err := n.without(ctx, peer)
	if err != nil {
		return err
	}
	defer done()
	for ctx.Err() == nil {
		servers, err := s.servers()
		if err != nil {
			return err
		}
		next, ok, err := n.nextRemoval(servers, peer)
		if err != nil || !ok {
			return err
		}
		if s.is(next) {
			successor, ok, err := n.successor(s)
			if err == nil && ok {
				err = s.transfer(ctx, successor)
			}
			if err != nil || !ok {
				return fmt.Errorf("nobody takes leadership over: %w", errors.Join(err, ErrSoleVoter))
			}
			return ledger.ErrNotCoordinator{Hint: successor.Peer}
		}
		if err := s.remove(next); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// nextRemoval names the next server to remove so that peer has none: ok is false when it has none.
func (n *Node) nextRemoval(servers []Voter, peer taskstate.PeerID) (next Voter, ok bool, err error) {
	i := slices.IndexFunc(servers, func(v Voter) bool { return v.Peer == peer })
	if i < 0 {
		return Voter{}, false, nil
	}
	leaving := servers[i]
	if !leaving.Voting {
		return leaving, true, nil
	}
	voters := slices.DeleteFunc(slices.Clone(servers), func(v Voter) bool { return !v.Voting })
	if len(voters) == 1 {
		return Voter{}, false, ErrSoleVoter
	}
	next, ok = planLeave(voters, leaving, aliveAmong(n.cfg.Candidates(), n.server()))
	if !ok {
		return Voter{}, false, fmt.Errorf("without %s the voters that are left could not decide; start one of %v first", peer, n.Missing())
	}
	return next, true, nil
}
