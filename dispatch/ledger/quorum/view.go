package quorum

import (
	"slices"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// Generation of the ledger this peer belongs to; 0 before it knows one.
func (n *Node) Generation() uint64 {
	if s := n.currentSeat(); s != nil {
		return s.generation
	}
	return n.replicaGeneration()
}

func (n *Node) replicaGeneration() (g uint64) {
	n.rep.Read(func(s *ledger.State) { g = s.Generation() })
	return g
}

// Coordinator is who decides now and in which epoch, as far as this peer knows: certain when it is
// this peer itself, the word of a voter otherwise. ok is false while nobody is known to decide.
func (n *Node) Coordinator() (taskstate.PeerID, taskstate.Epoch, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.coord, n.epoch, n.coord != ""
}

// Changed is closed when coordinator or epoch change after the call.
func (n *Node) Changed() <-chan struct{} { return n.changed.wait() }

// setCoordinator records who decides. "" means nobody is known to.
func (n *Node) setCoordinator(peer taskstate.PeerID, e taskstate.Epoch) {
	n.mu.Lock()
	same := n.coord == peer && (n.epoch == e || peer == "")
	if !same {
		n.coord = peer
		if peer != "" {
			n.epoch = e
		}
		n.authority.leaderKnown(peer != "", time.Now())
	}
	n.mu.Unlock()
	if !same {
		n.changed.fire()
		n.moved.fire()
		if peer == "" {
			n.SuspectLeader()
		}
	}
}

// Hint is news from gossip about who coordinates: it says whom to ask, nothing more. A peer that
// may have got a seat since this one heard of seats is asked when nobody else answers.
func (n *Node) Hint(peer taskstate.PeerID, e taskstate.Epoch) {
	switch {
	case peer == "" || n.epochBeyond(peer, e):
		return
	case !n.Seated(peer):
		n.askForProof(peer)
		return
	case e.Generation > n.Generation() && n.Generation() > 0:
		n.reportForeign(peer, e.Generation)
		return
	}
	n.mu.Lock()
	news := peer != n.cfg.Self && peer != "" && n.hintEpoch.Less(e)
	if news {
		n.hint, n.hintEpoch = peer, e
		n.heard[peer] = time.Now()
	}
	news = news && n.epoch.Less(e)
	n.mu.Unlock()
	if news {
		n.kick()
	}
}

// Voters is the committed configuration, as far as this peer knows.
func (n *Node) Voters() []Voter {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.voters)
}

// setVoters records a committed configuration, unless a newer one is known.
func (n *Node) setVoters(index uint64, vs []Voter) {
	n.mu.Lock()
	news := index >= n.votersFloor && (index > n.votersIndex || n.votersIndex == 0)
	if news {
		n.voters, n.votersIndex = vs, index
	}
	n.mu.Unlock()
	if news {
		n.holdSeats()
		n.moved.fire()
		n.kick()
		nudge(n.tenure.bad)
	}
}

// Follow names peers that may be voters: whom a newcomer asks first.
func (n *Node) Follow(voters []taskstate.PeerID) {
	news := false
	n.authority.seats.Assume(voters)
	n.mu.Lock()
	for _, v := range voters {
		if v != n.cfg.Self && !slices.Contains(n.contacts, v) {
			n.contacts, news = append(n.contacts, v), true
		}
	}
	n.mu.Unlock()
	if !news {
		return
	}
	if err := n.saveMemo(); err != nil {
		n.cfg.Log.Warn("cannot remember whom to follow", "err", err)
	}
	n.kick()
}
