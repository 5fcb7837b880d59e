package node

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
)

func TestNobodyAsksInAnothersName(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two") // two does not coordinate
	voter, admin := newPuppet(t), newPuppet(t)
	all[0].admit(voter, admission.Voter) // never seated
	all[0].admit(admin, admission.AllRoles()...)
	for _, l := range all {
		eventually(t, l.name+" admits the puppet", func() (bool, string) { return l.roster.Admitted(voter.Self()), "" })
		voter.SetAddrs(l.self, l.host.Addrs())
	}
	forged := func(c calls.Call) calls.Signed { // the victim's name over the forger's signature
		c.From = all[0].self
		c.At, c.Nonce = now(), make([]byte, 16)
		body, err := wire.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := voter.Sign(append([]byte("covey call 2\x00"+*voter.cluster+"\x00"), body...))
		if err != nil {
			t.Fatal(err)
		}
		return calls.Signed{Body: body, Sig: sig}
	}
	changed := func(c calls.Call) calls.Signed { // an admin's own call, changed on its way
		q := admin.signs(c)
		c.From, c.At, c.Nonce = admin.Self(), now(), make([]byte, 16)
		q.Body, _ = wire.Marshal(c)
		return q
	}
	elsewhere := func(c calls.Call) calls.Signed { // signed by the admin, for another cluster
		s := admin.signer()
		s.Cluster = func() string { return "another" }
		q, err := s.Seal(c)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	for _, at := range all {
		for what, c := range map[string]calls.Call{
			"submit": submitCall(all[0].self), "remove": {Remove: &ledger.Remove{Peer: all[1].self}}, "invite": inviteCall(all[0].self),
			"cancel": {Cancel: &ledger.Cancel{Job: "aaaaaaaaaa"}}, "leave": {Leave: &ledger.Depart{Peer: all[0].self}},
		} {
			for how, q := range map[string]calls.Signed{"forged": forged(c), "changed": changed(c), "elsewhere": elsewhere(c)} {
				if r := voter.passes(at.self, q); r.Error == nil || r.Error.Code != api.Refused {
					t.Errorf("%s, %s, at %s: %+v", what, how, at.name, r)
				}
			}
		}
		if at.refused.Total() == 0 {
			t.Errorf("%s counted nothing", at.name)
		}
	}
	if inv, err := all[0].Invites(timed(t)); err != nil || len(inv.Tickets) != 1 {
		t.Errorf("%+v, %v", inv, err)
	}
	all[0].sees("one", "two")
}

func TestAPeerThatPassesACallOnNeedsNoRole(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	worker, admin := newPuppet(t), newPuppet(t)
	all[0].admit(worker, admission.Worker)
	all[0].admit(admin, admission.Admin)
	if r := worker.passes(all[0].self, admin.signs(inviteCall(admin.Self()))); r.Error != nil || r.Lost {
		t.Errorf("an admin's call, passed on by a worker: %+v", r)
	}
}

func TestACallCountsOnce(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	p := newPuppet(t)
	all[0].admit(p, admission.AllRoles()...)
	set := func(a ledger.Availability) calls.Signed {
		return p.signs(calls.Call{Avail: &ledger.SetAvailability{Peer: all[1].self, Availability: a}})
	}
	pause := set(ledger.AvailPause)
	if r := p.passes(all[0].self, pause); r.Error != nil || r.Lost {
		t.Fatalf("%+v", r)
	}
	if r := p.passes(all[0].self, set(ledger.AvailActive)); r.Error != nil || r.Lost {
		t.Fatalf("%+v", r)
	}
	before := all[0].replica.Applied()
	if r := p.passes(all[0].self, pause); r.Error == nil || r.Error.Code != api.Refused {
		t.Errorf("said again by somebody who kept it: %+v", r)
	}
	s := p.signer()
	for _, skew := range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
		s.Now = func() int64 { return now() + skew.Milliseconds() }
		q, err := s.Seal(calls.Call{Avail: &ledger.SetAvailability{Peer: all[1].self, Availability: ledger.AvailPause}})
		if err != nil {
			t.Fatal(err)
		}
		if r := p.passes(all[0].self, q); !r.Lost || r.Now == 0 {
			t.Errorf("%s away: %+v", skew, r)
		}
	}
	if now := all[0].replica.Applied(); now != before {
		t.Errorf("the ledger went from %d to %d", before, now)
	}
}

// A clock that is behind is made good by the ledger, which tells the time; one that is a day ahead
// by the coordinator's, and what is more is for a person.
func TestAPeerWhoseClockIsWrongCanAskUnlessItIsMoreThanADayAhead(t *testing.T) {
	t.Parallel()
	one := alive(t, Config{Name: "one"})
	for name, off := range map[string]time.Duration{"ahead": 23 * time.Hour, "behind": -30 * time.Hour} {
		l := alive(t, Config{Name: name, Join: one.ticket(api.TicketRequest{Expires: 600}).Ticket, Now: func() time.Time { return time.Now().Add(off) }})
		l.outcome(l.submit(noopJob("of-"+name, 1, 0)))
	}
	c := &wrongClock{}
	c.step(30 * time.Hour)
	far := alive(t, Config{Name: "far", Join: one.ticket(api.TicketRequest{Expires: 600}).Ticket, Now: c.now})
	_, err := far.Submit(timed(t), api.Submit{Job: noopJob("of-far", 1, 0)})
	wants(t, err, api.Refused, "this machine's clock and the coordinator's differ by 30h: ", "set the one right that is wrong", "peer doctor")
	c.step(0)
	far.outcome(far.submit(noopJob("of-far", 1, 0)))
}
