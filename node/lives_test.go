package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

// outlasts tells whether the only batch of an incarnation is in a store still after those of twenty
// others have come.
func outlasts(t *testing.T, s *digest.Store, peer, inc string) bool {
	t.Helper()
	s.Add(digest.Envelope{Author: peer, Incarnation: inc, Number: 1, Body: []byte("running")})
	for i := range 20 {
		s.Add(digest.Envelope{Author: peer, Incarnation: fmt.Sprint("over-", i), Number: 1, Body: []byte("running")})
	}
	_, ok := s.Held(peer, inc, 1)
	return ok
}

// Statuses of a worker that lost its folder many times stay where others find them, whether it
// registered since or is in a snapshot. What the ledger says of this peer itself may be old: it
// knows better.
func TestStatusesOfTheLifeThatCountsOutlastThoseOfLivesThatAreOver(t *testing.T) {
	t.Parallel()
	lead := memledger.New("c", time.Now)
	for _, peer := range []taskstate.PeerID{"early", "worker", "self"} {
		lead.Join(peer, "1")
	}
	propose(t, lead, ledger.Command{Register: &ledger.Register{Peer: "worker", Incarnation: "2"}})
	begin := func() *entryObservers {
		h := &entryObservers{self: "self", replica: ledger.NewReplica(), store: digest.NewStore(0), statuses: &statuses{}}
		h.view = view.New(view.Config{Boot: "boot", Now: time.Now, Replica: h.replica, Table: taskstate.NewTable(h.replica, 0)})
		h.store.Current("self", "2")
		return h
	}
	followed, loaded := begin(), begin()
	for i, e := range lead.Entries() {
		if i == len(lead.Entries())-1 {
			followed.keepLives(ledger.Event{Reset: true})
			followed.replica.Observe(followed.decided)
		}
		followed.replica.Apply(e)
		loaded.replica.Apply(e)
	}
	loaded.keepLives(ledger.Event{Reset: true})
	for what, h := range map[string]*entryObservers{"followed": followed, "loaded": loaded} {
		for _, peer := range []string{"early", "worker", "self"} {
			inc := "2"
			if peer == "early" {
				inc = "1"
			}
			if !outlasts(t, h.store, peer, inc) {
				t.Errorf("%s: the statuses of %s, incarnation %s, gave way to those of lives that are over", what, peer, inc)
			}
		}
		if outlasts(t, h.store, "nobody", "1") {
			t.Errorf("%s: the statuses of a peer the ledger does not know outlast others", what)
		}
	}
}
