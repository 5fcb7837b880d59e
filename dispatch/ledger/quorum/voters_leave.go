package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// ErrSoleVoter refuses to take the vote from the only one that has it.
var ErrSoleVoter = errors.New("it is the only voter: the ledger is nowhere else; start another peer and let it join first")

func (e *electorate) handover(ctx context.Context) error {
	if e.place.seat.Load() == nil {
		return nil
	}
	e.handing.Store(true)
	defer e.handing.Store(false)
	for ctx.Err() == nil {
		wait := e.wakes.changed.wait()
		done, err := e.handOn(ctx)
		if done {
			return err
		}
		if err != nil {
			e.cfg.Log.Debug("handing over", "err", err)
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
func (e *electorate) handOn(ctx context.Context) (done bool, err error) {
	s := e.place.seat.Load()
	if s == nil {
		return true, nil
	}
	if e.terms.lead.Load() == nil {
		coord, _, ok := e.dir.coordinator()
		if !ok || coord == e.cfg.Self {
			return false, nil
		}
		_, err := e.call.ask(ctx, coord, voterAsk{Leave: &s.self}, leaveTimeout)
		return err == nil, err
	}
	if err := e.letGo(ctx, s.self); err != nil {
		return errors.Is(err, ErrSoleVoter), nil
	}
	successor, ok, err := e.successor(s)
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
	return s.ask(func() raft.Future {
		return s.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(id))
	})
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
func (e *electorate) successor(s *seat) (Voter, bool, error) {
	servers, err := s.servers()
	if err != nil {
		return Voter{}, false, err
	}
	alive := aliveAmong(e.candidates(), e.identity.server())
	for _, v := range servers {
		if v.Voting && !s.is(v) && alive(v) {
			return v, true, nil
		}
	}
	return Voter{}, false, nil
}

// letGo arranges, as coordinator, that leaving can stop: the living decide without it. When leaving
// is this peer itself, everything but its own removal is done; its successor does that.
func (e *electorate) letGo(ctx context.Context, leaving Voter) error {
	s, done, err := e.without(ctx, leaving.Peer)
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
		alive := aliveAmong(e.candidates(), e.identity.server())
		others := slices.ContainsFunc(voters, func(v Voter) bool { return v != voters[me] && alive(v) })
		if !others {
			if err := e.appoint(ctx, s, voters[me]); err != nil {
				return err
			}
			continue
		}
		next, ok := planHandover(voters, voters[me], alive)
		if !ok || s.is(next) {
			return nil
		}
		e.cfg.Log.Info("changing the voters", "what", changeRemove, "who", next, "why", leaving.Peer+" stops")
		if err := s.remove(next); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// without is how a change of the voters begins at the coordinator when a peer goes: nobody else
// changes them until done is called, and that peer is not made a voter again for a while.
func (e *electorate) without(ctx context.Context, peer taskstate.PeerID) (s *seat, done func(), err error) {
	l := e.terms.lead.Load()
	if l == nil {
		return nil, nil, e.terms.notCoordinator()
	}
	if err := l.seat.config.LockUntil(ctx); err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	e.absent[peer] = time.Now().Add(absentFor)
	e.mu.Unlock()
	return l.seat, l.seat.config.Unlock, nil
}

// appoint makes some live peer a voter, beside a last one that leaves.
func (e *electorate) appoint(ctx context.Context, s *seat, leaving Voter) error {
	cs := slices.DeleteFunc(e.candidates(), func(c Candidate) bool {
		return !c.Alive || !c.Eligible || c.Peer == leaving.Peer || c.Incarnation == ""
	})
	var errs []error
	for _, c := range cs {
		v := Voter{Peer: c.Peer, Incarnation: c.Incarnation}
		err := e.addListener(ctx, s, v)
		if err == nil {
			err = e.awaitReady(ctx, s, v)
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
func (e *electorate) awaitReady(ctx context.Context, s *seat, v Voter) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		a, err := e.call.ask(ctx, v.Peer, voterAsk{Status: &seatAsk{Generation: s.generation, Server: v.server()}}, voterTimeout)
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

func (e *electorate) removeVoter(ctx context.Context, peer taskstate.PeerID) error {
	s, done, err := e.without(ctx, peer)
	if err != nil {
		return err
	}
	defer done()
	for ctx.Err() == nil {
		servers, err := s.servers()
		if err != nil {
			return err
		}
		next, ok, err := e.nextRemoval(servers, peer)
		if err != nil || !ok {
			return err
		}
		if s.is(next) {
			successor, ok, err := e.successor(s)
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
func (e *electorate) nextRemoval(servers []Voter, peer taskstate.PeerID) (next Voter, ok bool, err error) {
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
	next, ok = planLeave(voters, leaving, aliveAmong(e.cfg.Candidates(), e.identity.server()))
	if !ok {
		return Voter{}, false, fmt.Errorf("without %s the voters that are left could not decide; start one of %v first", peer, e.missing())
	}
	return next, true, nil
}
