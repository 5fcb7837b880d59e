package node

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// signer signs what the puppet asks for.
func (p puppet) signer() *calls.Signer {
	return &calls.Signer{Self: p.Self(), Cluster: func() string { return *p.cluster }, Sign: p.Sign, Now: now}
}

// signs a call in the puppet's own name, passed on so often already; and the job in it, unless that
// is signed.
func (p puppet) signs(c calls.Call) calls.Signed {
	p.t.Helper()
	if c.Submit != nil && c.Submit.Order == nil {
		job := *c.Submit
		if err := p.signer().Order(&job, nil); err != nil {
			p.t.Fatal(err)
		}
		c.Submit = &job
	}
	q, err := p.signer().Seal(c)
	if err != nil {
		p.t.Fatal(err)
	}
	q.Hops = c.Hops
	return q
}

// asks sends one call to a peer, as the puppet's own.
func (p puppet) asks(peer string, c calls.Call) calls.Reply {
	p.t.Helper()
	return p.passes(peer, p.signs(c))
}

// passes sends a signed call on, exactly as it is.
func (p puppet) passes(peer string, q calls.Signed) calls.Reply {
	p.t.Helper()
	var r calls.Reply
	err := p.say(peer, q, &r)
	if err != nil {
		p.t.Fatalf("%s: %v", q.Body, err)
	}
	return r
}

func (p puppet) say(peer string, question, answer any) error {
	p.t.Helper()
	return p.exchange(peer, calls.Protocol, question, answer)
}

func inviteCall(from taskstate.PeerID) calls.Call {
	return calls.Call{From: from, Invite: &ledger.Invite{
		ID: admission.NewTicketID(), Secret: admission.TicketKey(admission.NewSecret()), Roles: admission.AllRoles(),
		Expires: now() + 60_000,
	}}
}

func submitCall(from taskstate.PeerID) calls.Call {
	j := noopJob("by-call", 1, 0)
	j.ID, j.Submitter = taskstate.NewJobID(), from
	return calls.Call{From: from, Submit: &j}
}

func TestAPeerMayDoWhatItsRolesSay(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	worker, submitter, admin := newPuppet(t), newPuppet(t), newPuppet(t)
	l.admit(worker, admission.Worker)
	l.admit(submitter, admission.Submit)
	l.admit(admin, admission.Admin)
	for _, c := range []struct {
		who  puppet
		call calls.Call
		need string // "" if it is allowed
	}{
		{worker, submitCall(worker.Self()), `"submit"`},
		{worker, inviteCall(worker.Self()), `"admin"`},
		{submitter, submitCall(submitter.Self()), ""},
		{submitter, inviteCall(submitter.Self()), `"admin"`},
		{submitter, calls.Call{From: submitter.Self(), Revoke: &ledger.Revoke{ID: "x"}}, `"admin"`},
		{submitter, calls.Call{From: submitter.Self(), Remove: &ledger.Remove{Peer: worker.Self()}}, `"admin"`},
		{admin, inviteCall(admin.Self()), ""},
		{admin, submitCall(admin.Self()), `"submit"`},
		{worker, calls.Call{From: worker.Self(), Leave: &ledger.Depart{Peer: worker.Self()}}, ""},       // its own leaving is everybody's right
		{submitter, calls.Call{From: submitter.Self(), Leave: &ledger.Depart{Peer: l.self}}, `"admin"`}, // another's is not
		{worker, calls.Call{From: worker.Self(), Cluster: &calls.ClusterCall{}}, ""},
	} {
		r := c.who.asks(l.self, c.call)
		switch {
		case c.need == "" && (r.Error != nil || r.Lost):
			t.Errorf("%+v: %+v", c.call, r)
		case c.need != "" && r.Error == nil:
			t.Errorf("%+v was allowed", c.call)
		case c.need != "":
			wants(t, r.Error, api.Refused, c.need, "peer roles puppet ROLE")
		}
	}
}

func TestACallIsPassedOnButNotForEver(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two") // two does not coordinate
	p := newPuppet(t)
	all[0].admit(p, admission.AllRoles()...)
	for _, l := range all {
		l.policy(t, "unsigned: allow\nrules:\n- {from: [self, key:"+p.Self()+"], run: any}\n")
	}
	eventually(t, "two admits the puppet, too", func() (bool, string) { return all[1].roster.Admitted(p.Self()), "" })
	p.SetAddrs(all[1].self, all[1].host.Addrs())
	c := submitCall(p.Self())
	for hops, lost := range map[int]bool{0: false, 1: false, calls.Hops - 1: true, calls.Hops: true, 1 << 30: true} {
		c.Hops = hops
		if r := p.asks(all[1].self, c); r.Lost != lost || r.Error != nil {
			t.Errorf("%d hops: %+v", hops, r)
		}
	}
	all[1].outcomeOf(t, string(c.Submit.ID))
	// Repeating a submission is the same submission, another job under its id is not.
	c.Hops = 0
	if r := p.asks(all[1].self, c); r.Error != nil || r.Lost {
		t.Errorf("%+v", r)
	}
	other := *c.Submit
	other.Name = "another"
	c.Submit = &other
	wants(t, p.asks(all[1].self, c).Error, api.Conflict, string(other.ID), "submit again")
}

func TestALostCallIsTriedAgain(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	var asked atomic.Int32
	all[0].host.Handle(calls.Protocol, func(peer string, c net.Conn) {
		switch asked.Add(1) {
		case 1: // not mine, not now
			defer c.Close()
			_ = wire.NewReader(c, 0).Read(&calls.Signed{})
			_ = wire.NewWriter(c, 0).Send(calls.Reply{Lost: true})
		case 2: // gone before the answer
			c.Close()
		default:
			all[0].line.Serve(timed(t), peer, c)
		}
	})
	id := all[1].submit(noopJob("insists", 1, 0))
	if n := asked.Load(); n < 3 {
		t.Errorf("asked %d times", n)
	}
	all[1].outcome(id)
}

func TestTheLackOfACoordinatorEndsWithTheContext(t *testing.T) {
	t.Parallel()
	n := newUnborn(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.line.Decide(ctx, submitCall(n.self))
	if !errors.Is(err, calls.ErrNobodyDecides) {
		t.Fatal(err)
	}
}

func TestARubbishCallIsNotAnswered(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	p := newPuppet(t)
	l.admit(p, admission.AllRoles()...)
	var r calls.Reply
	if err := p.say(l.self, "rubbish", &r); err == nil {
		t.Errorf("%+v", r)
	}
	if r := p.asks(l.self, calls.Call{}); r.Error == nil && !r.Lost { // no command at all
		t.Errorf("%+v", r)
	}
	l.submit(noopJob("unharmed", 1, 0))
}

func TestAStrangerReachesNoCalls(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	p := newPuppet(t)
	p.SetAddrs(l.self, l.host.Addrs())
	var r calls.Reply
	if err := p.say(l.self, inviteCall(l.self), &r); err == nil {
		t.Fatalf("%+v", r)
	}
}
