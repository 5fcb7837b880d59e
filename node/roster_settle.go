package node

import (
	"slices"
	"time"

	"covey/dispatch/ledger"
	"covey/p2p/admission"
	"covey/taskstate"
)

// A peer that shows its entry is believed on a signature, so that it need not wait for the news of its admission. What the ledger does not
// say within a moment, once this peer's replica is current, was never decided: it goes.

const (
	settleFirst = 10 * time.Second // after the start
	settleAfter = 30 * time.Second // that an entry of the roster may be ahead of the ledger
)

// level tells whether this peer's replica of the ledger is current.
func (n *Node) level() bool {
	if n.ledger == nil {
		return false
	}
	ok, _ := n.ledger.InSync()
	return ok
}

// past is up to where this peer has applied the ledger.
func (n *Node) past() (generation, index uint64) {
	if n.ledger == nil {
		return 0, 0
	}
	return n.ledger.Generation(), n.replica.Applied()
}

// settling is since when entries of the roster differ from the ledger, while that was current.
type settling map[taskstate.PeerID]time.Time

// look compares roster and ledger, puts right what has differed for long enough, and sets the timer for when it is to be called again.
func (s settling) look(n *Node, again *time.Timer) {
	if !n.level() {
		clear(s)
		again.Reset(settleAfter)
		return
	}
	decided := map[taskstate.PeerID]admission.Entry{}
	n.replica.Read(func(st *ledger.State) {
		for m := range st.Members() {
			decided[m.Entry.Peer] = m.Entry
		}
	})
	if len(decided) == 0 || n.removed() { // one's own removal is the one entry that the own replica never has
		return
	}
	var drop []string
	var trust []admission.Entry
	for _, e := range n.roster.All() {
		d, ok := decided[e.Peer]
		if ok && d.Same(e) {
			delete(s, e.Peer)
			continue
		}
		since, seen := s[e.Peer]
		switch {
		case !seen:
			s[e.Peer] = time.Now()
		case time.Since(since) < settleAfter:
		case ok:
			trust = append(trust, d)
		default:
			drop = append(drop, e.Peer)
		}
	}
	if len(s) > 0 {
		again.Reset(settleAfter)
	}
	s.carryOut(n, drop, trust)
}

func (s settling) carryOut(n *Node, drop []string, trust []admission.Entry) {
	if len(drop)+len(trust) == 0 {
		return
	}
	for _, p := range slices.Concat(drop, peersOf(trust)) {
		delete(s, p)
		n.refused.Note(p, "an entry of the roster that was never decided")
	}
	n.log.Warn("the roster had entries that were never decided: the ledger's count", "dropped", drop, "changed back", peersOf(trust))
	if err := n.roster.Drop(drop...); err != nil {
		n.log.Warn("roster not kept", "err", err)
	}
	n.trust(trust...)
}

func peersOf(entries []admission.Entry) (peers []string) {
	for _, e := range entries {
		peers = append(peers, e.Peer)
	}
	return peers
}
