package node

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/calls"
	"covey/p2p/admission"
	"covey/p2p/wire"
	"covey/taskstate"
)

// signer signs what the puppet asks for.
func (p puppet) signer() *callSigner {
	return &callSigner{self: p.Self(), cluster: func() string { return *p.cluster }, sign: p.Sign, now: now}
}

// signs a call in the puppet's own name, passed on so often already.
func (p puppet) signs(c call) signedCall {
	p.t.Helper()
	q, err := p.signer().seal(c)
	if err != nil {
		p.t.Fatal(err)
	}
	q.Hops = c.Hops
	return q
}

// asks sends one call to a peer, as the puppet's own.
func (p puppet) asks(peer string, c call) reply {
	p.t.Helper()
	return p.passes(peer, p.signs(c))
}

// passes sends a signed call on, exactly as it is.
func (p puppet) passes(peer string, q signedCall) reply {
	p.t.Helper()
	var r reply
	err := p.say(peer, q, &r)
	if err != nil {
		p.t.Fatalf("%s: %v", q.Body, err)
	}
	return r
}

func (p puppet) say(peer string, question, answer any) error {
	p.t.Helper()
	return p.exchange(peer, callProtocol, question, answer)
}

func inviteCall(from taskstate.PeerID) call {
	return call{From: from, Invite: &ledger.Invite{
		ID: admission.NewTicketID(), Secret: admission.HashSecret(admission.NewSecret()), Roles: admission.AllRoles(),
		Expires: now() + 60_000,
	}}
}

func submitCall(from taskstate.PeerID) call {
	j := noopJob("by-call", 1, 0)
	j.ID, j.Submitter = taskstate.NewJobID(), from
	return call{From: from, Submit: &j}
}

func TestAPeerMayDoWhatItsRolesSay(t *testing.T) {
	l := alive(t, Config{Name: "one"})
	worker, submitter, admin := newPuppet(t), newPuppet(t), newPuppet(t)
	l.admit(worker, admission.Worker)
	l.admit(submitter, admission.Submit)
	l.admit(admin, admission.Admin)
	for _, c := range []struct {
		who  puppet
		call call
		need string // "" if it is allowed
	}{
		{worker, submitCall(worker.Self()), `"submit"`},
		{worker, inviteCall(worker.Self()), `"admin"`},
		{submitter, submitCall(submitter.Self()), ""},
		{submitter, inviteCall(submitter.Self()), `"admin"`},
		{submitter, call{From: submitter.Self(), Revoke: &ledger.Revoke{ID: "x"}}, `"admin"`},
		{submitter, call{From: submitter.Self(), Remove: &ledger.Remove{Peer: worker.Self()}}, `"admin"`},
		{admin, inviteCall(admin.Self()), ""},
		{admin, submitCall(admin.Self()), `"submit"`},
		{worker, call{From: worker.Self(), Leave: &ledger.Depart{Peer: worker.Self()}}, ""},       // its own leaving is everybody's right
		{submitter, call{From: submitter.Self(), Leave: &ledger.Depart{Peer: l.self}}, `"admin"`}, // another's is not
		{worker, call{From: worker.Self(), Flock: &calls.FlockCall{}}, ""},
	} {
		r := c.who.asks(l.self, c.call)
		switch {
		case c.need == "" && (r.Error != nil || r.Lost):
			t.Errorf("%+v: %+v", c.call, r)
		case c.need != "" && r.Error == nil:
			t.Errorf("%+v was allowed", c.call)
		case c.need != "":
			wants(t, r.Error, api.Refused, c.need, "peer ticket --role")
		}
	}
}

func TestACallIsPassedOnButNotForEver(t *testing.T) {
	all := flockOf(t, "one", "two") // two does not coordinate
	p := newPuppet(t)
	all[0].admit(p, admission.AllRoles()...)
	eventually(t, "two admits the puppet, too", func() (bool, string) { return all[1].roster.Admitted(p.Self()), "" })
	p.SetAddrs(all[1].self, all[1].host.Addrs())
	c := submitCall(p.Self())
	for hops, lost := range map[int]bool{0: false, 1: false, callHops - 1: true, callHops: true, 1 << 30: true} {
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
	all := flockOf(t, "one", "two")
	var asked atomic.Int32
	all[0].host.Handle(callProtocol, func(peer string, c net.Conn) {
		switch asked.Add(1) {
		case 1: // not mine, not now
			defer c.Close()
			_ = wire.NewReader(c, 0).Read(&signedCall{})
			_ = wire.NewWriter(c, 0).Send(reply{Lost: true})
		case 2: // gone before the answer
			c.Close()
		default:
			all[0].serveCall(timed(t), peer, c)
		}
	})
	id := all[1].submit(noopJob("insists", 1, 0))
	if n := asked.Load(); n < 3 {
		t.Errorf("asked %d times", n)
	}
	all[1].outcome(id)
}

func TestTheLackOfACoordinatorEndsWithTheContext(t *testing.T) {
	n := newUnborn(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.decide(ctx, submitCall(n.self))
	if !errors.Is(err, errNobodyDecides) {
		t.Fatal(err)
	}
}

func TestARubbishCallIsNotAnswered(t *testing.T) {
	l := alive(t, Config{Name: "one"})
	p := newPuppet(t)
	l.admit(p, admission.AllRoles()...)
	var r reply
	if err := p.say(l.self, "rubbish", &r); err == nil {
		t.Errorf("%+v", r)
	}
	if r := p.asks(l.self, call{}); r.Error == nil && !r.Lost { // no command at all
		t.Errorf("%+v", r)
	}
	l.submit(noopJob("unharmed", 1, 0))
}

func TestAStrangerReachesNoCalls(t *testing.T) {
	l := alive(t, Config{Name: "one"})
	p := newPuppet(t)
	p.SetAddrs(l.self, l.host.Addrs())
	var r reply
	if err := p.say(l.self, inviteCall(l.self), &r); err == nil {
		t.Fatalf("%+v", r)
	}
}

func TestARefusalSaysWhatToType(t *testing.T) {
	id := taskstate.JobID("k3v5q7x2ab")
	for _, c := range []struct {
		cmd  ledger.Command
		code ledger.Code
		want api.Code
		part string
	}{
		{ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{ID: id}}}, ledger.CodeConflict, api.Conflict, "submit again"},
		{ledger.Command{Cancel: &ledger.Cancel{Job: id}}, ledger.CodeOver, api.Conflict, "is over"},
		{ledger.Command{Cancel: &ledger.Cancel{Job: id}}, ledger.CodeUnknown, api.NotFound, "peer jobs"},
		{ledger.Command{Revoke: &ledger.Revoke{ID: "t1"}}, ledger.CodeUnknown, api.NotFound, "peer ticket --list"},
		{ledger.Command{Remove: &ledger.Remove{Peer: "p1"}}, ledger.CodeUnknown, api.NotFound, "peer peers"},
		{ledger.Command{Remove: &ledger.Remove{Peer: "p1"}}, ledger.CodeSole, api.Conflict, "only voter"},
		{ledger.Command{Depart: &ledger.Depart{Peer: "p1"}}, ledger.CodeUnknown, api.Conflict, "unknown"},
	} {
		wants(t, refusal(c.cmd, c.code), c.want, c.part)
	}
}

// Whoever asks again after an answer was lost may be so late that the job has ended and is forgotten. It was accepted all the same.
func TestAJobThatIsOverAndForgottenWasAccepted(t *testing.T) {
	submit := ledger.Command{Submit: &ledger.Submit{}}
	if r := answerTo(submit, ledger.Result{Refused: ledger.CodeOver, Existed: true}, 7); r.Error != nil || r.Lost || r.Index != 7 {
		t.Errorf("answered with %+v", r)
	}
	if r := answerTo(submit, ledger.Result{Refused: ledger.CodeConflict, Existed: true}, 7); r.Error == nil {
		t.Error("another job of that id was taken for it")
	}
}
