package node

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// A coordinator in bad hands writes into the ledger what nobody asked for.

// says is a command with an act in somebody's name that this peer signs: its own, or forged.
func (l *living) says(name taskstate.PeerID, c ledger.Command) ledger.Command {
	l.t.Helper()
	at := l.ledgerTime()
	a, err := act.Act{By: name, At: at, Until: at + act.Lasts, N: act.Number()}.Signed(l.roster.Cluster(), c.Asked(), l.host.Sign)
	if err != nil {
		l.t.Fatal(err)
	}
	c.Act = &a
	return c
}

// Attack (c): a voter, even the one that coordinates, asks for something in an admin's name. It is
// a no-op on every follower.
func TestACoordinatorForgesNoActOfAnAdmin(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	liar, admin := all[0], all[1].self
	job := liar.submit(noopJob("goes-on", 1, time.Hour))
	entry := func(of *living, roles ...admission.Role) admission.Entry {
		e, ok := liar.roster.Get(of.self)
		if !ok {
			t.Fatal("no entry")
		}
		e.Roles, e.At = roles, e.At+1
		signed, err := e.Signed(liar.host)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	if _, err := liar.Set(timed(t), api.Settings{RequireOrders: "on"}); err != nil {
		t.Fatal(err)
	}
	var applied uint64
	for what, c := range map[string]ledger.Command{
		"cancel": {Cancel: &ledger.Cancel{Job: taskstate.JobID(job)}},
		"retry":  {Renew: &ledger.Renew{Job: taskstate.JobID(job), Slots: []ledger.Slots{{First: 1, N: 1}}, Reason: taskstate.ReasonRetried}},
		"stop":   {Retire: &ledger.Retire{Job: taskstate.JobID(job), Slots: []ledger.Slots{{First: 1, N: 1}}, Reason: taskstate.ReasonCancelled}},
		"pin":    {Pin: &ledger.Pin{Job: taskstate.JobID(job)}},
		"ticket": {Invite: &ledger.Invite{ID: "forged", Secret: admission.TicketKey(admission.NewSecret()), Roles: admission.AllRoles()}},
		"remove": {Remove: &ledger.Remove{Peer: all[2].self}},
		"drain":  {Avail: &ledger.SetAvailability{Peer: all[2].self, Availability: ledger.AvailDrain}},
		"label":  {Label: &ledger.Label{Peer: all[2].self, Set: map[string]string{"a": "b"}}},
		"set":    {Set: &ledger.Set{Beat: 2000}},
		"fewer":  {Admit: &ledger.Admit{Entry: entry(all[2], admission.Worker)}},
	} {
		index, results, err := liar.decides(liar.says(admin, c), c)
		if err != nil || results[0].Refused != ledger.CodeUnsigned || results[1].Refused != ledger.CodeUnsigned {
			t.Errorf("%s, forged and without anybody's word: %+v, %v", what, results, err)
		}
		applied = max(applied, index)
	}
	for _, l := range all {
		eventually(t, l.name+" has all of it", func() (bool, string) { return l.replica.Applied() >= applied, "" })
		l.replica.Read(func(s *ledger.State) {
			j, _ := s.Job(taskstate.JobID(job))
			m, _ := s.Member(all[2].self)
			_, _, cancelled := j.Cancelled()
			if cancelled || j.Slot(1).Attempt != 1 || j.Slot(1).Leaving != "" || !m.In() || !m.Takes() || len(m.Labels) > 0 || !m.Entry.Has(admission.Admin) || s.Settings().Beat != 0 {
				t.Errorf("%s believed some of it: cancelled %t, slot %+v, member %+v, settings %+v", l.name, cancelled, j.Slot(1), m, s.Settings())
			}
			for _, i := range s.Invites() {
				if i.ID == "forged" {
					t.Errorf("%s has the ticket", l.name)
				}
			}
		})
		if e, ok := l.roster.Get(all[2].self); !ok || !e.Has(admission.Admin) {
			t.Errorf("%s, roster: %+v", l.name, e)
		}
	}
}

// What a person asks for twice, because the answer was lost, is done once; and a coordinator that
// keeps it does it once.
func TestWhatAPersonAskedForIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	liar := all[0]
	var kept ledger.Command
	drop := liar.replica.Observe(func(ev ledger.Event) {
		for _, c := range ev.Entry.Commands {
			if c.Avail != nil && c.Act != nil {
				kept = c
			}
		}
	})
	if _, err := all[1].orders.SetAvailability(timed(t), "one", api.Availability{Availability: api.Paused}); err != nil {
		t.Fatal(err)
	}
	drop()
	if kept.Act == nil || kept.Act.By != all[1].self {
		t.Fatalf("what was decided is not signed by who asked for it: %+v", kept)
	}
	if _, err := all[1].orders.SetAvailability(timed(t), "one", api.Availability{Availability: api.Active}); err != nil {
		t.Fatal(err)
	}
	_, results, err := liar.ledger.Propose(timed(t), []ledger.Command{kept})
	if err != nil || !results[0].Existed {
		t.Errorf("%+v, %v", results, err)
	}
	liar.replica.Read(func(s *ledger.State) {
		if m, _ := s.Member(liar.self); !m.Takes() {
			t.Errorf("done again: %+v", m)
		}
	})
}

// Whoever coordinates may let a key of its own in. Nobody believes that it has a role: that takes a
// person's word, and what came in by tickets has it, on every peer and after a restart.
func TestACoordinatorGivesNoRoleByItself(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	liar := all[0]
	p := newPuppet(t)
	e, err := admission.Entry{Cluster: liar.roster.Cluster(), Peer: p.Self(), Name: "own key", Roles: admission.AllRoles(), At: now()}.Signed(liar.host)
	if err != nil {
		t.Fatal(err)
	}
	index, _, err := liar.decides(ledger.Command{Admit: &ledger.Admit{Entry: e, Dialect: wire.Dialect}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all[1:] {
		eventually(t, l.name+" has it", func() (bool, string) { return l.replica.Applied() >= index, "" })
		if roots := l.roster.Roots(); len(roots) != 1 || roots[0] != liar.self {
			t.Errorf("%s believes the word of %v; its ticket names the founder", l.name, roots)
		}
		for _, of := range all {
			if got := believed(l, of.self); len(got) != len(admission.AllRoles()) {
				t.Errorf("%s believes that %s has the roles %v", l.name, of.name, got)
			}
		}
		if got := believed(l, p.Self()); len(got) > 0 {
			t.Errorf("%s believes that a key which only the coordinator let in has the roles %v", l.name, got)
		}
	}
}

// Attack (k): the key of a removed peer orders nothing more: what waits and what runs of it ends,
// on every peer, its ticket of many uses lets nobody in, its word gives no role, and nobody tries
// again what it ordered.
func TestARevokedKeyOrdersNothingMore(t *testing.T) {
	long.Test(t)
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one, two, three := all[0], all[1], all[2]
	queue := two.submit(noopJob("queue", 2000, time.Hour))
	service := noopJob("service", 1, time.Hour)
	service.Type = taskstate.ServiceJob
	goesOn := two.submit(service)
	others := three.submit(noopJob("others", 1, time.Hour))
	ticket := two.ticket(api.TicketRequest{Expires: 600, Uses: 100, Roles: []string{"admin"}}).Ticket
	four := alive(t, Config{Name: "four", Join: ticket})
	eventually(t, "its word gives a role before", func() (bool, string) { return len(believed(one, four.self)) == 1, "" })
	if err := one.Remove(timed(t), "two", api.Removal{}); err != nil {
		t.Fatal(err)
	}
	ordered, err := one.OrderedBy(timed(t), two.self)
	if err != nil || len(ordered.Jobs) != 2 {
		t.Fatalf("losing a machine revokes nothing; of its orders go on %+v, %v", ordered, err)
	}
	if err := one.Remove(timed(t), two.self, api.Removal{Revoke: true}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*living{one, three, four} {
		for _, id := range []string{queue, goesOn} {
			eventually(t, l.name+" has "+id+" ended", func() (over bool, why string) {
				l.replica.Read(func(s *ledger.State) {
					j, _ := s.Job(taskstate.JobID(id))
					reason, _, cancelled := j.Cancelled()
					over, why = cancelled && j.State().Final(), reason
				})
				return over, why
			})
		}
		if got := believed(l, four.self); l != four && len(got) > 0 {
			t.Errorf("%s believes that four has the roles %v", l.name, got)
		}
	}
	one.replica.Read(func(s *ledger.State) {
		if j, _ := s.Job(taskstate.JobID(others)); j.State().Final() {
			t.Error("another's job ended, too")
		}
	})
	if _, err := tryAlive(t, Config{Name: "five", Join: ticket}); err == nil {
		t.Error("its ticket lets somebody in")
	}
	if _, err := one.Retry(timed(t), queue); err == nil || api.AsError(err).Code != api.Refused {
		t.Errorf("what it ordered begins again: %v", err)
	}
}

func believed(l *living, peer taskstate.PeerID) (roles []admission.Role) {
	l.replica.Read(func(s *ledger.State) { roles = s.Warrants().Chained(peer, l.roster.Roots()) })
	return roles
}

// Attack (d): a peer with every role and no seat asks in another's name, by its call or by the act
// in it.
func TestWhoHoldsNoSeatAsksInNobodysName(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	p := unseated(t, all...)
	drain := ledger.Command{Avail: &ledger.SetAvailability{Peer: all[1].self, Availability: ledger.AvailDrain}}
	at := now()
	word, err := act.Act{By: all[0].self, At: at, Until: at + act.Lasts, N: 1}.Signed(*p.cluster, drain.Asked(), p.Sign)
	if err != nil {
		t.Fatal(err)
	}
	own := p.signs(calls.Call{Avail: drain.Avail, Act: &word})
	anothers := p.signer()
	anothers.Self = all[0].self
	call, err := anothers.Seal(calls.Call{Avail: drain.Avail})
	if err != nil {
		t.Fatal(err)
	}
	for what, q := range map[string]calls.Signed{"an act in another's name": own, "a call in another's name": call} {
		if r := p.passes(all[0].self, q); r.Error == nil || r.Error.Code != api.Refused {
			t.Errorf("%s: %+v", what, r)
		}
	}
	all[0].replica.Read(func(s *ledger.State) {
		if m, _ := s.Member(all[1].self); !m.Takes() {
			t.Errorf("%+v", m)
		}
	})
}
