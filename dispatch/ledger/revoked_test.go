package ledger_test

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// signedJob is a job that a peer ordered at a time, in the place of another order.
func signedJob(t *testing.T, by string, j taskstate.Job, at int64, old *taskstate.Order) taskstate.Job {
	t.Helper()
	if j.Submitter == "" {
		j.Submitter = by
	}
	if err := taskstate.SignOrder(&j, "c", by, at, old.Digest(), func(b []byte) ([]byte, error) { return ed25519.Sign(keyOf(by), b), nil }); err != nil {
		t.Fatal(err)
	}
	return j
}

// A coordinator keeps what a key had signed, and brings it forward after the key was revoked: while
// it is no member, when somebody lets it in again, and when it is removed a second time, without
// revoking it. Nothing of it counts in the ledger, and no machine takes it for wanted.
func TestWhatARevokedKeySignedIsVoidWheneverItIsBroughtForward(t *testing.T) {
	l := signedLog(t)
	noop := func(id taskstate.JobID) taskstate.Job {
		return taskstate.Job{ID: id, Name: string(id), Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	}
	l.must(
		signed(t, "p1", 1000, 1, roles("p3", admission.Admin, admission.Submit)),
		signed(t, "p3", 1000, 2, roles("p4", admission.Submit)),
		signed(t, "p1", 1000, 3, ledger.Command{Set: &ledger.Set{RequireOrders: ledger.On}}),
	)
	queued := signedJob(t, "p3", noop("queued"), 1000, nil)
	nightly := noop("nightly")
	nightly.Schedule = &taskstate.Schedule{Cron: "0 3 * * *"}
	nightly = signedJob(t, "p3", nightly, 1000, nil)
	first := signedJob(t, "p3", lastingJob("web", "a"), 1000, nil)
	others := signedJob(t, "p1", noop("others"), 1000, nil)
	for _, j := range []taskstate.Job{queued, nightly, first, others} {
		l.must(ledger.Command{Submit: &ledger.Submit{Job: j}})
	}
	// p1 took this one over: its way back is to what p3 ordered.
	taken := first
	taken.Run = taskstate.Run{Process: &taskstate.Process{Command: []string{"b"}}}
	taken = signedJob(t, "p1", taken, 1001, first.Order)
	l.must(ledger.Command{Update: &ledger.Update{Job: taken}})
	changed := nightly
	changed.Priority++
	kept := map[string]ledger.Command{
		"a job":                {Submit: &ledger.Submit{Job: signedJob(t, "p3", noop("held back"), 1000, nil)}},
		"an update":            {Update: &ledger.Update{Job: signedJob(t, "p3", changed, 1001, nightly.Order)}},
		"its order again":      {Update: &ledger.Update{Job: signedJob(t, "p3", queued, 1001, queued.Order)}},
		"a run of a schedule":  {Submit: &ledger.Submit{Job: nightly.RunAt(1002)}},
		"tasks tried again":    {Renew: &ledger.Renew{Job: "queued", Slots: []ledger.Slots{{First: 1, N: 1}}, Reason: taskstate.ReasonRetried}},
		"another's job ended":  {Cancel: &ledger.Cancel{Job: "others"}},
		"roles":                roles("p2", admission.AllRoles()...),
		"a ticket":             {Invite: &ledger.Invite{ID: "t", Secret: []byte("s"), Lasts: 500}},
		"the end of a peer":    {Remove: &ledger.Remove{Peer: "p2"}},
		"a pause of a machine": pause("p2"),
		"a pause of its own":   pause("p3"),
	}
	n := uint64(10)
	for what, c := range kept {
		if n++; c.Submit == nil && c.Update == nil {
			kept[what] = signed(t, "p3", 1000, n, c)
		}
	}
	first.Version, taken.Version = 1, 2
	void := func(when string) {
		t.Helper()
		for what, c := range kept {
			before := encode(t, l.Unchained())
			if r := l.one(c); r.Refused == ledger.CodeNone {
				t.Errorf("%s: %s counts: %+v", when, what, r)
			}
			l.sameBut(before, when+": "+what)
		}
		for _, j := range []taskstate.Job{queued, first} {
			if err := l.Warrants().Outdated(taskstate.Task(j.ID, 1, 7), &j); !errors.Is(err, ledger.ErrOutdated) {
				t.Errorf("%s: a machine takes %s for wanted: %v", when, j.ID, err)
			}
		}
		for _, j := range []taskstate.Job{others, taken} {
			if err := l.Warrants().Outdated(taskstate.Task(j.ID, 1, 7), &j); err != nil {
				t.Errorf("%s: %s of another is not wanted: %v", when, j.ID, err)
			}
		}
		for _, peer := range []string{"p3", "p4"} {
			if got := l.Warrants().Chained(peer, []string{"p1"}); len(got) > 0 {
				t.Errorf("%s: policies believe that %s has %v", when, peer, got)
			}
		}
	}
	if got := l.Warrants().Chained("p4", []string{"p1"}); !slices.Equal(got, []admission.Role{admission.Submit}) {
		t.Fatalf("before, policies believe that p4 has %v", got)
	}
	secret := admission.NewSecret()
	ticket := ledger.Command{Invite: &ledger.Invite{ID: "u", Secret: admission.TicketKey(secret), Roles: admission.AllRoles(), Lasts: 5000}}
	in := roles("p3", admission.AllRoles()...)
	in.Admit.Ticket, in.Admit.Proof = "u", admission.Prove(secret, "p3")
	l.must(signed(t, "p1", 1000, 100, ledger.Command{Remove: &ledger.Remove{Peer: "p3", Revoke: true}}))
	void("removed")
	l.must(signed(t, "p1", 1000, 101, ticket), in)
	if m, _ := l.Member("p3"); !m.In() {
		t.Fatal("it was not let in again")
	}
	void("in again")
	l.must(signed(t, "p1", 1000, 102, ledger.Command{Remove: &ledger.Remove{Peer: "p3"}}))
	void("removed again")
}
