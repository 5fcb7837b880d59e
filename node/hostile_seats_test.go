package node

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/roster"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// A peer that was admitted with every role, and never got a seat in the ledger, lies as if it had
// one.

// exchange sends one frame on a protocol and reads one.
func (p puppet) exchange(peer, protocol string, question any, answer any) error {
	p.t.Helper()
	c, err := p.Dial(timed(p.t), peer, protocol)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if err := wire.NewWriter(c, 0).Send(question); err != nil {
		return err
	}
	return wire.NewReader(c, 0).Read(answer)
}

// unseated has a puppet admitted with every role, and known to everybody.
func unseated(t *testing.T, all ...*living) puppet {
	t.Helper()
	p := newPuppet(t)
	all[0].admit(p, admission.AllRoles()...)
	for _, l := range all {
		eventually(t, l.name+" admits the puppet", func() (bool, string) { return l.roster.Admitted(p.Self()), "" })
		p.SetAddrs(l.self, l.host.Addrs())
		l.host.SetAddrs(p.Self(), p.Addrs())
	}
	return p
}

// Attack (d): no entries for the log.
func TestWhoHoldsNoSeatSendsNoEntries(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	eventually(t, "three peers vote", func() (bool, string) { return len(all[0].Deciders.Voters()) == 3, "" })
	p := unseated(t, all...)
	for _, v := range all[0].ledger.Voters() {
		hello := map[int]any{1: all[0].ledger.Generation(), 2: p.Self() + "/1", 3: v.Peer + "/" + string(v.Incarnation)}
		var a map[int]any
		if err := p.exchange(v.Peer, quorum.RaftProtocol, hello, &a); err != nil {
			t.Fatal(err)
		}
		if ok, _ := a[1].(bool); ok {
			t.Errorf("%s takes entries from a peer without a seat", v.Peer)
		}
		for what, ask := range map[string]map[int]any{
			"prepare": {1: map[int]any{1: 1, 2: v.Peer + "/" + string(v.Incarnation)}},
			"status":  {2: map[int]any{1: 1, 2: v.Peer + "/" + string(v.Incarnation)}},
			"stand":   {5: map[int]any{1: 1, 4: p.Self() + "/1", 5: uint64(1<<64 - 1)}},
		} {
			var a map[int]any
			if err := p.exchange(v.Peer, quorum.VoterProtocol, ask, &a); err != nil {
				t.Fatal(what, err)
			}
			if ok, _ := a[1].(bool); ok {
				t.Errorf("%s answers %s: %v", v.Peer, what, a)
			}
		}
	}
	for _, l := range all {
		l.outcome(l.submit(noopJob("goes-on", 1, 0)))
	}
}

func TestWhoHoldsNoSeatSeatsNobody(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two") // two follows
	p := unseated(t, all...)
	server := all[1].self + "/" + string(all[1].ledger.SeatIncarnation())
	for _, generation := range []uint64{1, 2, 1<<64 - 1} {
		var a map[int]any
		if err := p.exchange(all[1].self, quorum.VoterProtocol, map[int]any{1: map[int]any{1: generation, 2: server}}, &a); err != nil {
			t.Fatal(err)
		}
		if ok, _ := a[1].(bool); ok {
			t.Errorf("it took a seat in generation %d: %v", generation, a)
		}
	}
	if f := all[1].ledger.Foreign(); f > 2 {
		t.Errorf("it believes that there is a generation %d", f)
	}
}

// lyingFeed serves what a voter would, forged: an entry that admits a crony and submits a job, and
// a bookmark that names the liar.
func (p puppet) lyingFeed(epoch taskstate.Epoch, index uint64, proof ...admission.Seats) (asked *atomic.Int32) {
	p.t.Helper()
	asked = new(atomic.Int32)
	job := noopJob("forged", 1, 0)
	job.ID = "aaaaaaaaaa"
	entry, err := wire.Marshal(map[int]any{2: epoch, 3: now(), 4: p.Self(), 5: []ledger.Command{{Submit: &ledger.Submit{Job: job}}}})
	if err != nil {
		p.t.Fatal(err)
	}
	voters := []quorum.Voter{{Peer: p.Self(), Incarnation: "1", Voting: true}}
	p.Handle(quorum.FollowProtocol, func(_ string, c net.Conn) {
		defer c.Close()
		asked.Add(1)
		_ = c.SetDeadline(time.Now().Add(patience))
		var hello map[int]any
		if wire.NewReader(c, 0).Read(&hello) != nil {
			return
		}
		w := wire.NewWriter(c, 0)
		first := map[int]any{}
		if len(proof) > 0 {
			first[6] = proof
		}
		for _, f := range []map[int]any{
			first,
			{2: []map[int]any{{1: index, 2: entry}}},
			{3: true},
			{4: map[int]any{1: index, 2: p.Self(), 3: epoch, 4: voters, 5: index}},
		} {
			if w.Send(f) != nil {
				return
			}
		}
		_, _ = c.Read(make([]byte, 1)) // until it is closed
	})
	return asked
}

func TestWhoHoldsNoSeatIsNotFollowed(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	p := unseated(t, all...)
	index := all[1].replica.Applied() + 1
	forged := admission.Seats{Cluster: all[0].roster.Cluster(), Generation: 1, Index: index + 100, Voters: []string{p.Self()}, By: p.Self()}
	if s, err := forged.SignedBy(p); err != nil {
		t.Fatal(err)
	} else {
		forged = s
	}
	asked := p.lyingFeed(taskstate.At(1, 1000), index, forged)
	all[1].ledger.Hint(p.Self(), taskstate.At(1, 1000)) // as gossip would say
	all[1].ledger.Hint(p.Self(), taskstate.At(1<<64-1, 1<<64-1))
	all[0].crash() // so that two looks for somebody to follow
	eventually(t, "the liar is asked", func() (bool, string) { return asked.Load() > 0, "" })
	eventually(t, "and gives up", func() (bool, string) { return all[1].refused.Total() > 0, "" })
	unharmed(t, all[1], p)
	one := all[0].back()
	one.sees("one", "two")
	all[1].outcome(all[1].submit(noopJob("goes-on", 1, 0)))
	unharmed(t, all[1], p)
}

// unharmed: nothing of what a liar said is believed.
func unharmed(t *testing.T, l *living, p puppet) {
	t.Helper()
	if who, epoch, _ := l.ledger.Coordinator(); who == p.Self() || epoch.Term > 900 {
		t.Errorf("%s believes that the liar coordinates, in epoch %s", l.name, epoch)
	}
	if l.ledger.Seated(p.Self()) || l.ledger.Generation() != 1 {
		t.Errorf("%s believes that the liar holds a seat, in generation %d", l.name, l.ledger.Generation())
	}
	l.replica.Read(func(s *ledger.State) {
		if _, ok := s.Job("aaaaaaaaaa"); ok {
			t.Errorf("%s took a forged entry", l.name)
		}
	})
}

func TestWhoHoldsNoSeatBeginsNoOtherLedgerWhileSomebodyDecides(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	p := unseated(t, all...)
	s, err := admission.Seats{Cluster: all[0].roster.Cluster(), Generation: 2, Index: 1 << 20, Voters: []string{p.Self()}, By: p.Self()}.SignedBy(p)
	if err != nil {
		t.Fatal(err)
	}
	asked := p.lyingFeed(taskstate.At(2, 1), 1<<20, s)
	for _, l := range all {
		var a map[int]any
		_ = p.exchange(l.self, quorum.FollowProtocol, map[int]any{1: 2, 2: 0}, &a) // "I am of generation 2"
		_ = p.exchange(l.self, quorum.FollowProtocol, map[int]any{1: uint64(1<<64 - 1), 2: 0}, &a)
	}
	eventually(t, "the liar is asked for its ledger", func() (bool, string) { return asked.Load() > 0, "" })
	for _, l := range all {
		l.outcome(l.submit(noopJob("goes-on", 1, 0)))
		unharmed(t, l, p)
		if f := l.ledger.Foreign(); f > 1000 {
			t.Errorf("%s believes that there is a generation %d", l.name, f)
		}
	}
}

// Attack (d): no tombstone, nobody admitted.
func TestWhoHoldsNoSeatRemovesAndAdmitsNobody(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	p, friend := unseated(t, all...), newPuppet(t)
	type show struct {
		Entries []admission.Entry `cbor:"1,keyasint"`
		Seats   []admission.Seats `cbor:"2,keyasint,omitempty"`
	}
	own, _ := all[0].roster.Get(p.Self())
	tombstone := func(of *living) admission.Entry {
		e, _ := of.roster.Get(of.self)
		e.Removed, e.At, e.Index, e.Generation, e.Term = true, now()+1000, of.replica.Applied(), 1, 1
		e, err := e.Signed(p)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	crony, err := admission.Entry{Cluster: own.Cluster, Peer: friend.Self(), Roles: admission.AllRoles(), At: now()}.Signed(p)
	if err != nil {
		t.Fatal(err)
	}
	seat, err := admission.Seats{Cluster: own.Cluster, Generation: 1, Index: 1 << 19, Voters: []string{p.Self()}, By: p.Self()}.SignedBy(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		for _, q := range []show{
			{Entries: []admission.Entry{own, tombstone(all[0])}},
			{Entries: []admission.Entry{own, tombstone(all[1])}},
			{Entries: []admission.Entry{own, crony}},
			{Entries: []admission.Entry{own, tombstone(l), crony}, Seats: []admission.Seats{seat}},
		} {
			var a any
			if err := p.exchange(l.self, admission.RosterProtocol, q, &a); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, l := range all {
		for _, of := range all {
			if !l.roster.Admitted(of.self) {
				t.Errorf("%s believes that %s was removed", l.name, of.name)
			}
		}
		if l.roster.Admitted(friend.Self()) {
			t.Errorf("%s admits whom nobody who may admitted", l.name)
		}
		l.outcome(l.submit(noopJob("goes-on", 1, 0)))
	}
}

// One that holds a seat and lies about the roster is believed for a moment, by peers that were
// away; the ledger has the last word.
func TestWhatWasShownAndNeverDecidedGoes(t *testing.T) {
	t.Parallel()
	one := alive(t, Config{Name: "one"})
	friend := newPuppet(t)
	e, err := admission.Entry{Cluster: one.roster.Cluster(), Peer: friend.Self(), Roles: admission.AllRoles(), At: now()}.Signed(one.host)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.roster.Offer(e); err != nil || !one.roster.Admitted(friend.Self()) {
		t.Fatal(err)
	}
	s, again := roster.Settling{friend.Self(): time.Now().Add(-2 * roster.SettleAfter)}, time.NewTimer(time.Hour)
	defer again.Stop()
	s.Look(one.keeper, again)
	if one.roster.Admitted(friend.Self()) || !one.roster.Admitted(one.self) || one.refused.Total() == 0 {
		t.Errorf("%+v", one.roster.All())
	}
}

func TestAPeerThatWasAwayWhileAllSeatsChangedHandsComesBack(t *testing.T) {
	long.Test(t)
	all := clusterOf(t, "one", "two")
	two := all[1]
	_ = two.stop()
	ticket := all[0].ticket(api.TicketRequest{Expires: 600, Uses: 5})
	three := alive(t, Config{Name: "three", Join: ticket.Ticket})
	four := alive(t, Config{Name: "four", Join: ticket.Ticket})
	eventually(t, "three and four vote", func() (bool, string) {
		vs := three.Deciders.Voters()
		return len(vs) == 3 && three.ledger.Seated(three.self) && four.ledger.Seated(four.self), ""
	})
	_ = all[0].stop() // for good
	eventually(t, "they decide", func() (bool, string) {
		who, _, ok := three.ledger.Coordinator()
		return ok && who != all[0].self, ""
	})
	two = two.back()
	three.doors.remember([]admission.PeerAddr{{ID: two.self, Addrs: two.host.Addrs()}}) // which two has not heard of
	eventually(t, "two follows the new ones", func() (bool, string) {
		ok := two.ledger.Seated(three.self) && two.ledger.Seated(four.self)
		cur, _ := two.ledger.InSync()
		return ok && cur, ""
	})
	two.outcome(two.submit(noopJob("of-two", 1, 0)))
}

func TestARemovalNamesTheDecisionItIsOf(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	index := all[0].replica.Applied()
	if err := all[0].Remove(timed(t), all[1].self, api.Removal{}); err != nil {
		t.Fatal(err)
	}
	e, ok := all[0].roster.Get(all[1].self)
	if _, epoch, _ := all[0].ledger.Coordinator(); !ok || !e.Removed || e.Index < index || e.Generation != epoch.Generation || e.Term != epoch.Term {
		t.Errorf("%+v", e)
	}
	if err := e.Verify(p2p.Verify); err != nil {
		t.Error(err)
	}
}
