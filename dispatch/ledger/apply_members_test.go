package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

func invite(id string, uses int) ledger.Command {
	return ledger.Command{Invite: &ledger.Invite{ID: id, Secret: []byte("hash of " + id), Expires: 5000, Uses: uses}}
}

func admit(peer, ticket string) ledger.Command {
	e := entryFor(peer, admission.AllRoles()...)
	e.Ticket = ticket
	return ledger.Command{Admit: &ledger.Admit{Entry: e, Ticket: ticket}}
}

func TestAnInviteAdmitsUntilItIsUsedUpRevokedOrExpired(t *testing.T) {
	l := newLog(t)
	l.must(invite("t", 1), invite("u", 0), invite("v", 1))
	l.must(admit("p3", "t"), admit("p5", "u"), admit("p6", "u"))
	l.refuses(ledger.CodeUsedUp, admit("p4", "t"))
	l.refuses(ledger.CodeUnknown, admit("p4", "nope"))
	if r := l.one(admit("p3", "t")); !r.Existed || r.Refused != "" {
		t.Errorf("a repetition after a lost answer: %+v", r)
	}
	l.must(ledger.Command{Revoke: &ledger.Revoke{ID: "v"}})
	l.refuses(ledger.CodeRevoked, admit("p4", "v"))
	l.refuses(ledger.CodeUnknown, ledger.Command{Revoke: &ledger.Revoke{ID: "nope"}})
	l.stamp = 5000
	l.refuses(ledger.CodeExpired, admit("p4", "u"))
	if r, ok := l.InviteByKey([]byte("hash of u")); !ok || r.Used != 2 || r.ID != "u" || r.Check(l.Stamp()) != ledger.CodeExpired {
		t.Errorf("found %+v (%t)", r, ok)
	}
	if _, ok := l.InviteByKey(nil); ok {
		t.Error("no secret finds an invite")
	}
	if _, ok := l.Member("p4"); ok {
		t.Error("p4 came in")
	}
}

// Whoever holds a ticket's secret gets in itself, with the ticket's roles; nobody who heard of it
// does, and nobody gets more.
func TestOnlyWhoHoldsATicketGetsItsRoles(t *testing.T) {
	l := newLog(t)
	secret := admission.NewSecret()
	l.must(ledger.Command{Invite: &ledger.Invite{ID: "t", Secret: admission.TicketKey(secret), Roles: []admission.Role{admission.Worker}, Expires: 5000}})
	with := func(peer string, proof []byte, roles ...admission.Role) ledger.Command {
		return ledger.Command{Admit: &ledger.Admit{Entry: entryFor(peer, roles...), Ticket: "t", Proof: proof}}
	}
	l.refuses(ledger.CodeUnsigned, with("p4", admission.Prove(secret, "p3"), admission.Worker))
	l.refuses(ledger.CodeUnsigned, with("p4", admission.Prove(admission.NewSecret(), "p4"), admission.Worker))
	l.refuses(ledger.CodeUnsigned, with("p3", admission.Prove(secret, "p3"), admission.AllRoles()...))
	l.must(with("p3", admission.Prove(secret, "p3"), admission.Worker))
	if inv := l.Invites(); inv[0].Used != 1 {
		t.Errorf("%+v", inv)
	}
}

func TestAnInviteIsMadeOnce(t *testing.T) {
	l := newLog(t)
	l.must(invite("t", 1), admit("p3", "t"))
	if r := l.one(invite("t", 1)); !r.Existed {
		t.Errorf("a repetition: %+v", r)
	}
	other := invite("t", 1)
	other.Invite.Secret = []byte("another")
	l.refuses(ledger.CodeConflict, other)
	l.refuses(ledger.CodeInvalid, ledger.Command{Invite: &ledger.Invite{ID: "x"}})
	if list := l.Invites(); len(list) != 1 || list[0].Used != 1 {
		t.Errorf("invites %+v", list)
	}
}

func TestInvitesThatAdmitNobodyMakeRoom(t *testing.T) {
	l := newLog(t)
	for i := range ledger.KeepInvites {
		l.must(invite(fmt.Sprintf("t%04d", i), 1))
	}
	l.refuses(ledger.CodeOver, invite("one more", 1))
	l.must(admit("p3", "t0007"), invite("one more", 1))
	if list := l.Invites(); len(list) != ledger.KeepInvites || slices.ContainsFunc(list, func(r ledger.InviteRecord) bool { return r.ID == "t0007" }) {
		t.Errorf("%d invites, the used one still among them", len(list))
	}
}

func TestARemovedPeerNeedsANewInvite(t *testing.T) {
	l := newLog(t)
	l.must(invite("t", 5), invite("u", 5), admit("p3", "t"), ledger.Command{Register: &ledger.Register{Peer: "p3", Incarnation: "i1"}})
	l.must(ledger.Command{Remove: &ledger.Remove{Peer: "p3"}})
	if m, ok := l.Member("p3"); !ok || m.In() || m.Entry.Has(admission.Worker) || m.Entry.Sig != nil {
		t.Fatalf("left a tombstone %+v (%t)", m, ok)
	}
	l.refuses(ledger.CodeRevoked, admit("p3", ""))
	l.refuses(ledger.CodeRevoked, admit("p3", "t"))
	l.refuses(ledger.CodeUnknown, ledger.Command{Register: &ledger.Register{Peer: "p3", Incarnation: "i1"}})
	l.must(admit("p3", "u"))
	if m, _ := l.Member("p3"); !m.In() || m.Incarnation != "" {
		t.Errorf("came back as %+v", m)
	}
}

func TestARemovalKeepsTheSignedTombstone(t *testing.T) {
	l := newLog(t)
	grave := entryFor("p2")
	grave.Removed, grave.Sig = true, []byte("signed")
	wrong := entryFor("p1")
	wrong.Removed = true
	l.refuses(ledger.CodeInvalid, ledger.Command{Remove: &ledger.Remove{Peer: "p2", Entry: &wrong}})
	l.must(ledger.Command{Remove: &ledger.Remove{Peer: "p2", Entry: &grave}})
	if m, _ := l.Member("p2"); string(m.Entry.Sig) != "signed" || m.In() {
		t.Errorf("kept %+v", m)
	}
	if r := l.one(ledger.Command{Remove: &ledger.Remove{Peer: "p2"}}); !r.Existed {
		t.Errorf("a second removal: %+v", r)
	}
}

func TestTheLastWhoCouldDecideCannotBeRemoved(t *testing.T) {
	l := newLog(t)
	l.refuses(ledger.CodeSole, ledger.Command{Remove: &ledger.Remove{Peer: "p1"}})
	l.refuses(ledger.CodeUnknown, ledger.Command{Remove: &ledger.Remove{Peer: "stranger"}})
	l.must(admit("p3", ""), ledger.Command{Remove: &ledger.Remove{Peer: "p1"}})
}

func TestWhoGoesGivesItsTasksBackUnlessTheyMustNotRunTwice(t *testing.T) {
	for name, c := range map[string]ledger.Command{
		"removed":                  {Remove: &ledger.Remove{Peer: "p2"}},
		"left":                     {Depart: &ledger.Depart{Peer: "p2"}},
		"came back without a disk": {Register: &ledger.Register{Peer: "p2", Incarnation: "i2"}},
	} {
		l := newLog(t)
		once := submit("once", 2)
		once.Submit.Job.Unreachable.Wait = true
		l.must(submit("j", 4), once, assign("j", "p2", run(1, 3, 1)), assign("j", "p1", run(4, 1, 1)),
			assign("once", "p2", run(1, 2, 1)), settle("p2", ended("j", 2, taskstate.Complete), ended("once", 2, taskstate.Complete)))
		l.must(c)
		if got := slices.Collect(l.OpenOn("p2")); len(got) != 0 {
			t.Errorf("%s: %v is still open there", name, got)
		}
		if got := slices.Collect(l.OpenOn("p1")); len(got) != 1 || got[0] != taskstate.Task("j", 4, 1) {
			t.Errorf("%s: p1 has %v", name, got)
		}
		if got := slices.Collect(l.record("j").PendingSlots()); !slices.Equal(got, []ledger.Slots{run(1, 1, 2), run(3, 1, 2)}) {
			t.Errorf("%s: %v waits", name, got)
		}
		j := l.record("once")
		if st := j.Slot(1).Final; st == nil || st.State != taskstate.Orphaned || st.Reason != taskstate.ReasonInterrupted || j.State() != taskstate.Failed {
			t.Errorf("%s: the task that must not run twice: %+v, its job %v", name, st, j.State())
		}
	}
}

func TestALeaverIsGivenNothingUntilItRegistersAgain(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 1), ledger.Command{Depart: &ledger.Depart{Peer: "p2"}})
	l.refuses(ledger.CodeUnknown, assign("j", "p2", run(1, 1, 1)))
	if r := l.one(ledger.Command{Depart: &ledger.Depart{Peer: "p2"}}); !r.Existed {
		t.Errorf("a second departure: %+v", r)
	}
	l.stamp = 2000
	l.must(ledger.Command{Register: &ledger.Register{Peer: "p2", Incarnation: "i1", Name: "two"}}, assign("j", "p2", run(1, 1, 1)))
	if m, _ := l.Member("p2"); m.Left || m.Name != "two" || m.Since != 2000 {
		t.Errorf("back as %+v", m)
	}
	l.refuses(ledger.CodeInvalid, ledger.Command{Register: &ledger.Register{Peer: "p2"}})
	if r := l.one(ledger.Command{Register: &ledger.Register{Peer: "p2", Incarnation: "i1"}}); !r.Existed {
		t.Errorf("nothing new: %+v", r)
	}
	if got := len(slices.Collect(l.OpenOn("p2"))); got != 1 {
		t.Errorf("registering again in the same life cost it its task: %d left", got)
	}
}

func TestALedgerIsFoundedOnceAndBegunAgainOnlyWithAHigherGeneration(t *testing.T) {
	l := newLog(t)
	found := func(cluster string, generation uint64) ledger.Command {
		return ledger.Command{Found: &ledger.Found{Cluster: cluster, Generation: generation, Open: true, Founder: entryFor("p1", admission.AllRoles()...)}}
	}
	if r := l.one(found("c", 1)); !r.Existed || l.Open() {
		t.Errorf("a repetition: %+v, open %t", r, l.Open())
	}
	l.refuses(ledger.CodeConflict, found("another", 1))
	l.refuses(ledger.CodeConflict, found("c", 0))
	l.must(found("c", 2))
	if l.Cluster() != "c" || l.Generation() != 2 || !l.Open() {
		t.Errorf("cluster %q, generation %d, open %t", l.Cluster(), l.Generation(), l.Open())
	}
	blank := &log{State: ledger.NewState(), t: t}
	blank.refuses(ledger.CodeInvalid, ledger.Command{Found: &ledger.Found{}})
}

func TestMembersComeInOrderOfTheirIDs(t *testing.T) {
	l := newLog(t)
	l.must(admit("p9", ""), admit("p0", ""))
	var got []string
	for m := range l.Members() {
		got = append(got, m.Entry.Peer)
	}
	if !slices.Equal(got, []string{"p0", "p1", "p2", "p9"}) {
		t.Errorf("members %v", got)
	}
}
