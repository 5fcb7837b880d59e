package roster

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// A peer that shows its entry is believed on a signature, so that it need not wait for the news of
// its admission. What the ledger does not say within a moment, once this peer's replica is current,
// was never decided: it goes.

const (
	settleFirst = 10 * time.Second // after the start
	SettleAfter = 30 * time.Second // that an entry of the roster may be ahead of the ledger
)

// Settling is since when entries of the roster differ from the ledger, while that was current.
type Settling map[taskstate.PeerID]time.Time

// Look compares roster and ledger, puts right what has differed for long enough, and sets the timer
// for when it is to be called again.
func (s Settling) Look(k *Sync, again *time.Timer) {
	if !k.InSync() {
		clear(s)
		again.Reset(SettleAfter)
		return
	}
	decided := map[taskstate.PeerID]admission.Entry{}
	k.cfg.Ledger().Replica().Read(func(st *ledger.State) {
		for m := range st.Members() {
			decided[m.Entry.Peer] = m.Entry
		}
	})
	if len(decided) == 0 || k.Removed() { // one's own removal is the one entry that the own replica never has
		return
	}
	var drop []string
	var trust []admission.Entry
	for _, e := range k.cfg.Roster.All() {
		d, ok := decided[e.Peer]
		if ok && d.Same(e) {
			delete(s, e.Peer)
			continue
		}
		since, seen := s[e.Peer]
		switch {
		case !seen:
			s[e.Peer] = time.Now()
		case time.Since(since) < SettleAfter:
		case ok:
			trust = append(trust, d)
		default:
			drop = append(drop, e.Peer)
		}
	}
	if len(s) > 0 {
		again.Reset(SettleAfter)
	}
	s.carryOut(k, drop, trust)
}

func (s Settling) carryOut(k *Sync, drop []string, trust []admission.Entry) {
	if len(drop)+len(trust) == 0 {
		return
	}
	for _, p := range slices.Concat(drop, peersOf(trust)) {
		delete(s, p)
		k.cfg.Note(p, "an entry of the roster that was never decided")
	}
	k.cfg.Log.Warn("the roster had entries that were never decided: the ledger's count", "dropped", drop, "changed back", peersOf(trust))
	k.cfg.Roster.Drop(drop...)
	k.trust(trust)
}

func peersOf(entries []admission.Entry) (peers []string) {
	for _, e := range entries {
		peers = append(peers, e.Peer)
	}
	return peers
}
