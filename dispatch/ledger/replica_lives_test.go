package ledger_test

import (
	"maps"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

func TestAnObserverHearsWhichIncarnationsCount(t *testing.T) {
	m := memledger.New("p1", clock())
	heard := map[taskstate.PeerID]taskstate.Incarnation{}
	at := func(ev ledger.Event) {
		m.Replica().Lives(ev, func(peer taskstate.PeerID, inc taskstate.Incarnation) { heard[peer] = inc })
	}
	defer m.Replica().Observe(at)()
	want := func(why string, want map[taskstate.PeerID]taskstate.Incarnation) {
		t.Helper()
		if !maps.Equal(heard, want) {
			t.Errorf("%s: heard %v, want %v", why, heard, want)
		}
		clear(heard)
	}
	m.Join("p1", "i1")
	m.Join("p2", "i1")
	want("both registered", map[taskstate.PeerID]taskstate.Incarnation{"p1": "i1", "p2": "i1"})
	propose(t, m, ledger.Command{Register: &ledger.Register{Peer: "p2", Incarnation: "i2"}})
	want("one lost its folder", map[taskstate.PeerID]taskstate.Incarnation{"p2": "i2"})
	propose(t, m, submit("j", 1))
	want("nobody registered", nil)
	if _, _, err := m.Propose(t.Context(), []ledger.Command{{Register: &ledger.Register{Peer: "stranger", Incarnation: "i1"}}}); err != nil {
		t.Fatal(err)
	}
	want("who is no member was refused", nil)
	propose(t, m, ledger.Command{Admit: &ledger.Admit{Entry: entryFor("p3", admission.Worker)}})
	at(ledger.Event{Reset: true})
	want("all of them, but one that never registered", map[taskstate.PeerID]taskstate.Incarnation{"p1": "i1", "p2": "i2"})
	propose(t, m, ledger.Command{Remove: &ledger.Remove{Peer: "p2"}})
	at(ledger.Event{Reset: true})
	want("one is removed", map[taskstate.PeerID]taskstate.Incarnation{"p1": "i1"})
}
