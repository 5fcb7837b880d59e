package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"covey/p2p/wire"
	"covey/taskstate"
)

const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 8 * time.Second
	avoidFor   = time.Second // a peer that failed is tried after the others for so long
)

// Reasons why a stream ends; they are for logs.
var (
	errTooSlow   = errors.New("fell behind what is kept")
	errElsewhere = errors.New("somebody else is the one to follow now")
	errAimless   = errors.New("it knows of no coordinator")
	errStale     = errors.New("it is behind what is known here")
	errSnapshot  = errors.New("a snapshot is too large or malformed")
)

// syncState is how current the replica is.
type syncState struct {
	from taskstate.PeerID // whom it is followed from now, "" = nobody
	ok   bool             // the stream has caught up
	at   time.Time        // when the last frame came
}

// InSync tells whether this peer's copy is current: it coordinates itself, or follows somebody and
// has caught up. at is when it last was known to be (zero: never).
func (n *Node) InSync() (ok bool, at time.Time) {
	if n.lead.Load() != nil {
		return true, time.Now()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	fresh := time.Since(n.sync.at) < 3*n.cfg.Timings.Bookmark
	return n.sync.ok && n.sync.from != "" && n.coord != "" && fresh, n.sync.at
}

// runFollow keeps the replica current until ctx ends: from the coordinator if it can be reached,
// otherwise from any voter. A voter follows the coordinator too – raft tells it late what has been
// committed – and the one that coordinates follows nobody.
func (n *Node) runFollow(ctx context.Context) {
	avoid := map[taskstate.PeerID]time.Time{}
	backoff := backoffMin
	for ctx.Err() == nil {
		asked, err := n.followAny(ctx, avoid)
		switch {
		case errors.Is(err, errElsewhere):
			backoff = backoffMin
			continue
		case err == nil && asked > 1: // it worked until it broke, and there are others to ask at once
			backoff = backoffMin
			continue
		case err == nil:
			backoff = backoffMin
		case asked > 0 && n.lead.Load() == nil:
			n.forgetCoordinator()
		}
		wait := backoffMax
		if asked > 0 {
			wait = backoff/2 + rand.N(backoff)
			backoff = min(2*backoff, backoffMax)
		}
		select {
		case <-ctx.Done():
		case <-n.poke:
			backoff = backoffMin
		case <-time.After(wait):
		}
	}
}

// followAny follows the best of the targets that answers, until that ends. err is nil if the
// replica was current meanwhile, errElsewhere if it ended because there is somebody better, and
// otherwise that of the last one tried.
func (n *Node) followAny(ctx context.Context, avoid map[taskstate.PeerID]time.Time) (asked int, err error) {
	targets := n.targets(avoid)
	err = errAimless
	for _, peer := range targets {
		var ok bool
		ok, err = n.follow(ctx, peer, avoid)
		n.cfg.Log.Debug("stopped following", "peer", peer, "why", err)
		if errors.Is(err, errElsewhere) || ctx.Err() != nil {
			return len(targets), err
		}
		avoid[peer] = time.Now().Add(avoidFor)
		n.forgetNewer(peer)
		if ok && !errors.Is(err, errStale) {
			return len(targets), nil
		}
	}
	return len(targets), err
}

// forgetCoordinator: nobody who could know answers.
func (n *Node) forgetCoordinator() {
	n.mu.Lock()
	mine := n.coord == n.cfg.Self
	n.mu.Unlock()
	if !mine {
		n.setCoordinator("", taskstate.Epoch{})
	}
}

// targets lists whom to follow, best first: who has a ledger of a higher generation, whom raft
// takes for leader, whom gossip names in a newer epoch, the coordinator as it is known, the other
// voters in random order, whoever else might know. Those in avoid come last.
func (n *Node) targets(avoid map[taskstate.PeerID]time.Time) []taskstate.PeerID {
	out := n.newerLedgers() // even a coordinator looks there: its ledger may be one that others have given up
	if n.lead.Load() != nil {
		return out
	}
	s := n.currentSeat()
	if s != nil {
		if leader, ok := s.leader(); ok {
			if leader == n.cfg.Self {
				return out // elected, about to lead
			}
			out = append(out, leader)
		}
	}
	n.mu.Lock()
	avoid = n.stillAvoided(avoid)
	if n.epoch.Less(n.hintEpoch) {
		out = append(out, n.hint)
	}
	out = append(out, n.coord)
	k := len(out)
	for _, v := range n.voters {
		if v.Voting {
			out = append(out, v.Peer)
		}
	}
	others := out[k:]
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	out = append(out, n.contacts...)
	n.mu.Unlock()
	seen := map[taskstate.PeerID]bool{n.cfg.Self: true, "": true}
	out = slices.DeleteFunc(out, func(p taskstate.PeerID) bool { had := seen[p]; seen[p] = true; return had })
	now := time.Now()
	slices.SortStableFunc(out, func(a, b taskstate.PeerID) int { return avoided(avoid, a, now).Compare(avoided(avoid, b, now)) })
	return out
}

// stillAvoided is avoid without those that were named since they failed: a leader raft hears from
// lives, whatever a dial said before it was up. The caller holds mu.
func (n *Node) stillAvoided(avoid map[taskstate.PeerID]time.Time) map[taskstate.PeerID]time.Time {
	out := make(map[taskstate.PeerID]time.Time, len(avoid))
	for p, until := range avoid {
		if !n.heard[p].After(until.Add(-avoidFor)) {
			out[p] = until
		}
	}
	return out
}

// avoided is until when a peer comes after the others; zero if it does not.
func avoided(avoid map[taskstate.PeerID]time.Time, peer taskstate.PeerID, now time.Time) time.Time {
	if until := avoid[peer]; now.Before(until) {
		return until
	}
	return time.Time{}
}

// better tells whether there is now somebody better to follow than peer: the leader as raft sees
// it, the coordinator, or whom gossip takes for a newer one. Not one that failed a moment ago.
func (n *Node) better(peer taskstate.PeerID, avoid map[taskstate.PeerID]time.Time) bool {
	newer := n.newerLedgers()
	switch {
	case slices.Contains(newer, peer):
		return false
	case n.lead.Load() != nil:
		return true
	}
	ts := n.targets(avoid)
	n.mu.Lock()
	avoid = n.stillAvoided(avoid)
	n.mu.Unlock()
	if len(ts) == 0 || ts[0] == peer || !avoided(avoid, ts[0], time.Now()).IsZero() {
		return false
	}
	if slices.Contains(newer, ts[0]) {
		return true
	}
	if s := n.currentSeat(); s != nil {
		if leader, ok := s.leader(); ok {
			return ts[0] == leader
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return ts[0] == n.coord || ts[0] == n.hint && n.epoch.Less(n.hintEpoch)
}

// follow takes entries from one peer until the stream breaks or there is somebody better. ok tells
// whether it caught up.
func (n *Node) follow(ctx context.Context, peer taskstate.PeerID, avoid map[taskstate.PeerID]time.Time) (ok bool, err error) {
	sctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() { // ends the stream, or the wait for one, when it is time
		defer close(watched)
		for {
			select {
			case <-sctx.Done():
				return
			case <-n.poke:
				if n.better(peer, avoid) {
					cancel(errElsewhere)
				}
			}
		}
	}()
	f := &following{n: n, peer: peer}
	err = f.open(sctx)
	cancel(err)
	<-watched
	if cause := context.Cause(sctx); errors.Is(cause, errElsewhere) {
		err = cause
	}
	return f.synced, err
}

// open follows as long as ctx lives.
func (f *following) open(ctx context.Context) error {
	c, err := f.n.cfg.Net.Dial(ctx, f.peer, FollowProtocol)
	if err != nil {
		return err
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = c.SetDeadline(time.Now()) // what is stuck in it would hold up Close
		_ = c.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
		_ = c.Close()
	}()
	f.c, f.r = c, wire.NewReader(c, 0)
	err = f.run()
	f.n.mu.Lock()
	f.n.sync.from, f.n.sync.ok = "", false
	f.n.mu.Unlock()
	return err
}

// addContacts remembers peers somebody named, for this run only.
func (n *Node) addContacts(peers []taskstate.PeerID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range peers {
		if p != "" && p != n.cfg.Self && !slices.Contains(n.contacts, p) && len(n.contacts) < maxContacts {
			n.contacts = append(n.contacts, p)
		}
	}
}

// setContacts remembers the voters on disk, so that this peer finds the cluster again after a
// restart.
func (n *Node) setContacts(vs []Voter) {
	peers := slices.DeleteFunc(peersOf(vs), func(p taskstate.PeerID) bool { return p == n.cfg.Self })
	n.mu.Lock()
	missing := slices.DeleteFunc(slices.Clone(peers), func(p taskstate.PeerID) bool { return slices.Contains(n.contacts, p) })
	if len(missing) == 0 {
		n.mu.Unlock()
		return
	}
	old := slices.DeleteFunc(n.contacts, func(p taskstate.PeerID) bool { return slices.Contains(peers, p) })
	n.contacts = append(old, peers...)
	n.contacts = n.contacts[max(0, len(n.contacts)-maxContacts):]
	n.mu.Unlock()
	if err := n.saveMemo(); err != nil {
		n.cfg.Log.Warn("cannot remember the voters", "err", err)
	}
}
