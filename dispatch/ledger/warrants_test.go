package ledger_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// keyOf is the key of a peer in these tests: anybody's who knows the name.
func keyOf(peer string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(peer))
	return ed25519.NewKeyFromSeed(seed[:])
}

func verify(peer string, data, sig []byte) error {
	if !ed25519.Verify(keyOf(peer).Public().(ed25519.PublicKey), data, sig) {
		return errors.New("not theirs")
	}
	return nil
}

// signed is a command as a peer asks for it at a time, with a number.
func signed(t interface{ Fatal(...any) }, by string, at int64, n uint64, c ledger.Command) ledger.Command {
	return signedIn(t, "c", by, at, n, c)
}

func signedIn(t interface{ Fatal(...any) }, cluster, by string, at int64, n uint64, c ledger.Command) ledger.Command {
	a, err := act.Act{By: by, At: at, Until: at + act.Lasts, N: n}.Signed(cluster, c.Asked(), func(b []byte) ([]byte, error) { return ed25519.Sign(keyOf(by), b), nil })
	if err != nil {
		t.Fatal(err)
	}
	c.Act = &a
	return c
}

// signedLog is a new log whose signatures are checked: besides p1, who may do all, and the worker
// p2 there are an admin, p3, and a submitter, p4.
func signedLog(t *testing.T) *log {
	l := newLog(t)
	l.must(
		ledger.Command{Admit: &ledger.Admit{Entry: entryFor("p3", admission.Admin)}},
		ledger.Command{Admit: &ledger.Admit{Entry: entryFor("p4", admission.Submit)}},
	)
	l.SetVerify(verify)
	return l
}

func pause(peer string) ledger.Command {
	return ledger.Command{Avail: &ledger.SetAvailability{Peer: peer, Availability: ledger.AvailPause}}
}

func TestWhatSomebodyAsksForCountsIfTheySignedItAndMay(t *testing.T) {
	l := signedLog(t)
	l.must(submit("j", 2))
	cancel := ledger.Command{Cancel: &ledger.Cancel{Job: "j"}}
	roles := ledger.Command{Admit: &ledger.Admit{Entry: entryFor("p2", admission.AllRoles()...)}}
	ticket := ledger.Command{Invite: &ledger.Invite{ID: "t", Secret: []byte("s"), Lasts: 500}}
	for what, c := range map[string]struct {
		cmd  ledger.Command
		want ledger.Code
	}{
		"an admin's, of a submitter":      {signed(t, "p4", 1000, 1, ticket), ledger.CodeForbidden},
		"a submitter's, of an admin":      {signed(t, "p3", 1000, 2, cancel), ledger.CodeForbidden},
		"a stranger's":                    {signed(t, "px", 1000, 3, cancel), ledger.CodeForbidden},
		"about another, of a worker":      {signed(t, "p2", 1000, 4, pause("p1")), ledger.CodeForbidden},
		"roles for itself":                {signed(t, "p2", 1000, 5, roles), ledger.CodeForbidden},
		"of another cluster":              {signedIn(t, "d", "p1", 1000, 6, cancel), ledger.CodeUnsigned},
		"long ago":                        {signed(t, "p1", 1000-act.Lasts-1, 7, cancel), ledger.CodeLate},
		"far ahead":                       {signed(t, "p1", 1000+act.MaxLasts, 8, cancel), ledger.CodeUnsigned},
		"what nobody is asked for":        {signed(t, "p1", 1000, 9, ledger.Command{Depart: &ledger.Depart{Peer: "p2"}}), ledger.CodeInvalid},
		"an act of nothing":               {signed(t, "p1", 1000, 10, ledger.Command{}), ledger.CodeInvalid},
		"in the name of somebody who may": {inNameOf("p1", signed(t, "p4", 1000, 11, ticket)), ledger.CodeUnsigned},
	} {
		before := encode(t, l.Unchained())
		if r := l.one(c.cmd); r.Refused != c.want {
			t.Errorf("%s: %+v", what, r)
		}
		l.sameBut(before, what)
	}
	l.must(signed(t, "p2", 1000, 20, pause("p2")), signed(t, "p4", 1000, 21, cancel), signed(t, "p3", 1000, 22, ticket), signed(t, "p3", 1000, 23, roles))
	if m, _ := l.Member("p2"); m.Takes() || !m.Entry.Has(admission.Admin) {
		t.Errorf("%+v", m)
	}
	if _, _, cancelled := l.record("j").Cancelled(); !cancelled || len(l.Invites()) != 1 || l.Invites()[0].Expires != 1500 {
		t.Errorf("%t, %+v", cancelled, l.Invites())
	}
}

func inNameOf(by string, c ledger.Command) ledger.Command {
	a := *c.Act
	a.By = by
	c.Act = &a
	return c
}

// sameBut tells whether the state is as it was, but for the index of its last entry.
func (l *log) sameBut(before []byte, what string) {
	l.t.Helper()
	was, err := ledger.DecodeState(before)
	if err != nil {
		l.t.Fatal(err)
	}
	was.Apply(ledger.Entry{Index: l.Index(), Epoch: l.epoch, Stamp: l.stamp, By: "p1"})
	if !bytes.Equal(encode(l.t, was), encode(l.t, l.Unchained())) {
		l.t.Errorf("%s changed something", what)
	}
}

// Whoever keeps an act of somebody has it count once, whatever else was decided meanwhile, and also
// where a ledger goes on from a snapshot. One that was refused may be asked for again.
func TestAnActCountsOnce(t *testing.T) {
	l := signedLog(t)
	ask := signed(t, "p3", 1000, 7, pause("p2"))
	early := signed(t, "p4", 1000, 8, ledger.Command{Cancel: &ledger.Cancel{Job: "j"}})
	l.refuses(ledger.CodeUnknown, early)
	l.must(ask, signed(t, "p3", 1001, 9, ledger.Command{Avail: &ledger.SetAvailability{Peer: "p2", Availability: ledger.AvailActive}}), submit("j", 1), early)
	again := signed(t, "p3", 1005, 7, pause("p2"))
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	back.SetVerify(verify)
	for where, s := range map[string]*ledger.State{"here": l.State, "from a snapshot": back} {
		for _, c := range []ledger.Command{ask, again, early} {
			r := s.Apply(ledger.Entry{Index: s.Index() + 1, Epoch: l.epoch, Stamp: 1010, By: "p1", Commands: []ledger.Command{c}})[0]
			if m, _ := s.Member("p2"); !r.Existed || r.Refused != "" || !m.Takes() {
				t.Errorf("%s: %+v", where, r)
			}
		}
	}
	l.stamp = 1005 + act.Lasts + 1
	l.refuses(ledger.CodeLate, again)
}

// Numbers are remembered in bounds, and what is forgotten does not count again.
func TestNumbersOfActsAreRememberedInBounds(t *testing.T) {
	l := signedLog(t)
	first := signed(t, "p3", 1000, 0, pause("p2"))
	l.must(first)
	for i := range 3000 {
		c := pause("p2")
		if i%2 == 1 {
			c.Avail.Availability = ledger.AvailActive
		}
		l.must(signed(t, "p3", 1001+int64(i), uint64(i+1), c))
	}
	l.refuses(ledger.CodeLate, first)
	if size := len(encode(t, l.State)); size > 64<<10 {
		t.Errorf("%d bytes", size)
	}
}

// asking draws a command that people ask for, in any form.
func asking(t *rapid.T) ledger.Command {
	word := func(label string) string { return rapid.StringMatching("[a-z]{0,3}").Draw(t, label) }
	job := taskstate.JobID(word("job"))
	slots := []ledger.Slots{{First: rapid.IntRange(0, 3).Draw(t, "first"), N: rapid.IntRange(0, 3).Draw(t, "n")}}
	number := rapid.Int64Range(0, 3).Draw(t, "number")
	set := rapid.MapOfN(rapid.StringMatching("[a-z]{1,2}"), rapid.StringMatching("[a-z]?"), 0, 3).Draw(t, "set")
	roles := rapid.SliceOfNDistinct(rapid.SampledFrom(admission.AllRoles()), 0, 4, rapid.ID[admission.Role]).Draw(t, "roles")
	entry := entryFor(word("peer"), roles...)
	return rapid.SampledFrom([]ledger.Command{
		{Cancel: &ledger.Cancel{Job: job, Reason: word("reason")}},
		{Renew: &ledger.Renew{Job: job, Slots: slots, Reason: taskstate.ReasonRetried}},
		{Retire: &ledger.Retire{Job: job, Slots: slots, Reason: taskstate.ReasonCancelled}},
		{Rollout: &ledger.Rollout{Job: job, State: taskstate.RolloutPaused, Message: word("message"), Version: int(number)}},
		{Pin: &ledger.Pin{Job: job, Not: number > 1}},
		{Invite: &ledger.Invite{ID: word("id"), Secret: []byte(word("secret")), Roles: roles, Expires: number, Uses: int(number)}},
		{Invite: &ledger.Invite{ID: word("id"), Secret: []byte(word("secret")), Roles: roles, Lasts: number}},
		{Revoke: &ledger.Revoke{ID: word("id")}},
		{Remove: &ledger.Remove{Peer: word("peer"), Reason: word("reason")}},
		{Avail: &ledger.SetAvailability{Peer: word("peer"), Availability: ledger.AvailDrain, Grace: number, Reason: word("reason")}},
		{Label: &ledger.Label{Peer: word("peer"), Set: set, Unset: []string{word("unset")}}},
		{Set: &ledger.Set{Beat: number, KeepJobs: int(number)}},
		{Admit: &ledger.Admit{Entry: entry}},
	}).Draw(t, "command")
}

// An act is for one command. It survives its way over the wire and what the coordinator fills in;
// for another command it is nobody's.
func TestAnActIsForOneCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := asking(t), asking(t)
		asked := signed(t, "p1", 1000, 1, one)
		b, err := wire.Marshal(asked)
		if err != nil {
			t.Fatal(err)
		}
		var back ledger.Command
		if err := wire.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		switch e := entryFor("p9"); {
		case back.Remove != nil:
			back.Remove.Entry = &e
		case back.Invite != nil && back.Invite.Lasts > 0:
			back.Invite.By, back.Invite.Expires = "p1", 77
		case back.Admit != nil:
			back.Admit.Entry.Name, back.Admit.Entry.At, back.Admit.Entry.By = "n", 7, "p9"
		}
		if err := back.Act.Check("c", back.Asked(), 1000, verify); err != nil {
			t.Fatalf("%+v, signed, is not taken: %v", one, err)
		}
		x, _ := wire.Marshal(one.Asked())
		y, _ := wire.Marshal(other.Asked())
		if err := asked.Act.Check("c", other.Asked(), 1000, verify); (err == nil) != bytes.Equal(x, y) {
			t.Fatalf("signed %+v, shown for %+v: %v", one, other, err)
		}
		a := *asked.Act
		a.N++
		if !errors.Is(a.Check("c", one.Asked(), 1000, verify), act.ErrUnsigned) {
			t.Fatal("another number is taken for it")
		}
	})
}

func roles(peer string, roles ...admission.Role) ledger.Command {
	return ledger.Command{Admit: &ledger.Admit{Entry: entryFor(peer, roles...)}}
}

// People give each other roles, by their word or by tickets, and a coordinator gives some by
// itself. Who has which by the word of people from the founder on is known also to one that was not
// there, from a snapshot.
func TestRolesChainToPeople(t *testing.T) {
	l := newLog(t)
	l.SetVerify(verify)
	secret := admission.NewSecret()
	ticket := func(id string, of ...admission.Role) ledger.Command {
		return ledger.Command{Invite: &ledger.Invite{ID: id, Secret: admission.TicketKey(secret), Roles: of, Lasts: 5000}}
	}
	with := func(peer, ticket string, of ...admission.Role) ledger.Command {
		c := roles(peer, of...)
		c.Admit.Ticket, c.Admit.Proof = ticket, admission.Prove(secret, peer)
		return c
	}
	l.must(
		signed(t, "p1", 1000, 1, ticket("t", admission.Admin, admission.Submit)), with("p3", "t", admission.Admin, admission.Submit),
		signed(t, "p3", 1000, 2, ticket("u", admission.Worker)), with("p4", "u", admission.Worker),
		signed(t, "p3", 1000, 3, roles("p4", admission.Worker, admission.Admin)),
		signed(t, "p4", 1000, 4, roles("p2", admission.Submit)),
		// The coordinator's own: an admin, whom it has make another; and a ticket of its own.
		roles("x1", admission.AllRoles()...), signed(t, "x1", 1000, 5, ticket("v", admission.Admin)), with("x2", "v", admission.Admin),
		ticket("w", admission.Admin), with("x3", "w", admission.Admin),
		roles("p2", admission.Submit, admission.Worker),         // more than p4 said
		signed(t, "p1", 1000, 6, roles("p3", admission.Submit)), // it was an admin then
		ledger.Command{Remove: &ledger.Remove{Peer: "p4"}},      // removed, and its word stands
	)
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	back.SetVerify(verify)
	for where, s := range map[string]*ledger.State{"here": l.State, "from a snapshot": back} {
		for peer, want := range map[string][]admission.Role{
			"p1": admission.AllRoles(), "p2": {admission.Submit}, "p3": {admission.Submit}, "p4": {admission.Worker, admission.Admin}, "x1": nil, "x2": nil, "x3": nil, "nobody": nil,
		} {
			if got := s.Warrants().Chained(peer, []string{"p1"}); !slices.Equal(got, want) {
				t.Errorf("%s: %s has %v, want %v", where, peer, got, want)
			}
		}
		if got := s.Warrants().Chained("x2", []string{"x1"}); !slices.Equal(got, []admission.Role{admission.Admin}) {
			t.Errorf("%s: from another root: %v", where, got)
		}
		if got := s.Warrants().Chained("x3", []string{ledger.Anybody}); !slices.Equal(got, []admission.Role{admission.Admin}) {
			t.Errorf("%s: where anybody may join: %v", where, got)
		}
	}
}

// A copy of the ledger from a liar has what the liar likes in it. What people did not sign counts
// for nothing.
func TestACopyFromALiarGivesNoRoles(t *testing.T) {
	l := newLog(t)
	l.SetVerify(verify)
	l.must(signed(t, "p1", 1000, 1, roles("p2", admission.Submit)))
	lie := func(change func(m *ledger.Member)) *ledger.State {
		s, err := ledger.DecodeState(encode(t, l.State))
		if err != nil {
			t.Fatal(err)
		}
		s.Forge("p2", change)
		if s, err = ledger.DecodeState(encode(t, s)); err != nil {
			t.Fatal(err)
		}
		s.SetVerify(verify)
		return s
	}
	for what, change := range map[string]func(*ledger.Member){
		"another entry":   func(m *ledger.Member) { m.Entry.Roles = []admission.Role{admission.Admin} },
		"another grant":   func(m *ledger.Member) { m.Entry.Roles = admission.AllRoles(); m.Grants[0].Roles = admission.AllRoles() },
		"another's grant": func(m *ledger.Member) { m.Entry.Roles = admission.AllRoles(); m.Grants[0].Word.By = "p2" },
		"a ticket": func(m *ledger.Member) {
			s := admission.NewSecret()
			m.Grants[0].Ticket, m.Grants[0].Proof = &ledger.Invite{ID: "t", Secret: admission.TicketKey(s), Roles: m.Grants[0].Roles}, admission.Prove(s, "p2")
		},
		"a grant of itself": func(m *ledger.Member) {
			c := signed(t, "p2", 1000, 2, roles("p2", admission.AllRoles()...))
			m.Entry.Roles, m.Grants = admission.AllRoles(), []ledger.RoleGrant{{Word: *c.Act, Roles: admission.AllRoles()}}
		},
	} {
		if got := lie(change).Warrants().Chained("p2", []string{"p1"}); len(got) > 0 {
			t.Errorf("%s gives %v", what, got)
		}
	}
	if got := lie(func(*ledger.Member) {}).Warrants().Chained("p2", []string{"p1"}); !slices.Equal(got, []admission.Role{admission.Submit}) {
		t.Errorf("the truth gives %v", got)
	}
}

// Where nothing is done that nobody signed, a coordinator decides alone only what follows from a
// job's own spec.
func TestWithoutAPersonsWordOnlyWhatFollowsFromAJobIsDecided(t *testing.T) {
	l := signedLog(t)
	service := taskstate.Job{ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 2, Version: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	other := service
	other.Run.Noop = &taskstate.Noop{Duration: 5}
	turnsBack := service
	turnsBack.ID, turnsBack.Name, turnsBack.Update = "b", "b", &taskstate.Update{Parallelism: 1, OnFailure: taskstate.RollBackUpdate}
	next := turnsBack
	next.Run.Noop = &taskstate.Noop{Duration: 5}
	secret := admission.NewSecret()
	ticket := ledger.Command{Invite: &ledger.Invite{ID: "t", Secret: admission.TicketKey(secret), Roles: []admission.Role{admission.Worker}, Lasts: 500}}
	joins := func(ticket string, proof []byte) ledger.Command {
		c := roles("p7", admission.Worker)
		c.Admit.Ticket, c.Admit.Proof = ticket, proof
		return c
	}
	forged := ticket
	forged.Invite = &ledger.Invite{ID: "u", Secret: ticket.Invite.Secret, Roles: ticket.Invite.Roles}
	rollout := func(id taskstate.JobID, to taskstate.RolloutState) ledger.Command {
		return ledger.Command{Rollout: &ledger.Rollout{Job: id, State: to, Message: "so"}}
	}
	l.must(
		submit("j", 2), ledger.Command{Submit: &ledger.Submit{Job: service}}, ledger.Command{Submit: &ledger.Submit{Job: turnsBack}},
		ledger.Command{Update: &ledger.Update{Job: other}}, ledger.Command{Update: &ledger.Update{Job: next}}, forged,
		signed(t, "p3", 1000, 1, ledger.Command{Set: &ledger.Set{RequireOrders: ledger.On}}), signed(t, "p3", 1000, 2, ticket),
	)
	one := []ledger.Slots{{First: 1, N: 1}}
	asked := map[string]ledger.Command{
		"cancel":                 {Cancel: &ledger.Cancel{Job: "j"}},
		"retry":                  {Renew: &ledger.Renew{Job: "s", Slots: one, Reason: taskstate.ReasonRetried}},
		"again, of a batch job":  {Renew: &ledger.Renew{Job: "j", Slots: one, Reason: taskstate.ReasonMoved}},
		"stop a task":            {Retire: &ledger.Retire{Job: "s", Slots: one, Reason: taskstate.ReasonCancelled}},
		"fewer of a batch job":   {Retire: &ledger.Retire{Job: "j", Slots: one, Reason: taskstate.ReasonScaled}},
		"turn back":              rollout("s", taskstate.RolloutRollingBack),
		"pin":                    {Pin: &ledger.Pin{Job: "j"}},
		"pause":                  pause("p2"),
		"label":                  {Label: &ledger.Label{Peer: "p2", Set: map[string]string{"a": "b"}}},
		"do not require orders":  {Set: &ledger.Set{RequireOrders: ledger.Off}},
		"ticket":                 {Invite: &ledger.Invite{ID: "v", Secret: []byte("s")}},
		"revoke":                 {Revoke: &ledger.Revoke{ID: "t"}},
		"remove":                 {Remove: &ledger.Remove{Peer: "p2"}},
		"roles":                  roles("p2", admission.AllRoles()...),
		"a newcomer":             roles("p7", admission.Worker),
		"a newcomer, no proof":   joins("t", nil),
		"by a ticket of nobody":  joins("u", admission.Prove(secret, "p7")),
		"what nobody thought of": {},
	}
	for what, c := range asked {
		before := encode(t, l.Unchained())
		l.refuses(ledger.CodeUnsigned, c)
		l.sameBut(before, what)
	}
	l.must(
		joins("t", admission.Prove(secret, "p7")),
		ledger.Command{Renew: &ledger.Renew{Job: "s", Slots: one, Reason: taskstate.ReasonMoved}},
		ledger.Command{Retire: &ledger.Retire{Job: "s", Slots: one, Reason: taskstate.ReasonScaled}},
		rollout("s", taskstate.RolloutPaused), rollout("b", taskstate.RolloutRollingBack), rollout("b", taskstate.RolloutPaused),
	)
	l.refuses(ledger.CodeUnsigned, rollout("s", taskstate.RolloutUpdating))
	l.refuses(ledger.CodeUnsigned, rollout("b", taskstate.RolloutRollingBack))
	n := uint64(100)
	for _, c := range []ledger.Command{rollout("s", taskstate.RolloutUpdating), rollout("b", taskstate.RolloutRollingBack), asked["cancel"], asked["pin"], asked["do not require orders"]} {
		n++
		l.must(signed(t, "p1", 1000, n, c))
	}
}

// Where everything is signed, whoever may submit changes what they ordered themselves, and an admin
// changes all.
func TestAJobIsChangedByWhoOrderedItOrByAnAdmin(t *testing.T) {
	l := signedLog(t)
	l.must(ledger.Command{Admit: &ledger.Admit{Entry: entryFor("p5", admission.Submit)}})
	mine, theirs := submit("mine", 2), submit("theirs", 2)
	mine.Submit.Job.Submitter, theirs.Submit.Job.Submitter = "p4", "p5"
	l.must(mine, theirs, signed(t, "p5", 1000, 1, ledger.Command{Pin: &ledger.Pin{Job: "mine"}}), signed(t, "p3", 1000, 2, ledger.Command{Set: &ledger.Set{RequireOrders: ledger.On}}))
	one := []ledger.Slots{{First: 1, N: 1}}
	n := uint64(10)
	for _, c := range []ledger.Command{
		{Pin: &ledger.Pin{Job: "theirs"}},
		{Retire: &ledger.Retire{Job: "theirs", Slots: one, Reason: taskstate.ReasonCancelled}},
		{Cancel: &ledger.Cancel{Job: "theirs"}},
		{Renew: &ledger.Renew{Job: "theirs", Slots: one, Reason: taskstate.ReasonRetried}},
	} {
		n += 3
		l.refuses(ledger.CodeForbidden, signed(t, "p4", 1000, n, c))
		by := "p5"
		if c.Retire != nil {
			by = "p1" // an admin, who may submit
		}
		if r := l.one(signed(t, by, 1000, n+1, c)); r.Refused == ledger.CodeForbidden || r.Refused == ledger.CodeUnsigned {
			t.Errorf("%+v is refused to %s: %+v", c, by, r)
		}
	}
}
