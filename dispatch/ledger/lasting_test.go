package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// service is a job of replicas that restart after any end, without delay.
func service(id taskstate.JobID, count int) ledger.Command {
	c := submit(id, count)
	c.Submit.Job.Type, c.Submit.Job.Restart = taskstate.ServiceJob, &taskstate.Restart{Condition: taskstate.RestartAny}
	return spec(c, 1)
}

// spec is a submission with other contents.
func spec(c ledger.Command, ms int64) ledger.Command {
	job := c.Submit.Job
	job.Run.Noop = &taskstate.Noop{Duration: ms}
	return ledger.Command{Submit: &ledger.Submit{Job: job}}
}

func update(c ledger.Command, from int) ledger.Command {
	return ledger.Command{Update: &ledger.Update{Job: c.Submit.Job, From: from}}
}

// assignOf assigns slots of a version.
func assignOf(version int, id taskstate.JobID, peer string, runs ...ledger.Slots) ledger.Command {
	c := assign(id, peer, runs...)
	c.Assign.Version = version
	return c
}

func renew(id taskstate.JobID, version int, runs ...ledger.Slots) ledger.Command {
	return ledger.Command{Renew: &ledger.Renew{Job: id, Slots: runs, Version: version, Reason: taskstate.ReasonUpdated}}
}

func retire(id taskstate.JobID, runs ...ledger.Slots) ledger.Command {
	return ledger.Command{Retire: &ledger.Retire{Job: id, Slots: runs, Reason: taskstate.ReasonScaled}}
}

func rollout(id taskstate.JobID, to taskstate.RolloutState) ledger.Command {
	return ledger.Command{Rollout: &ledger.Rollout{Job: id, State: to}}
}

func avail(peer string, to ledger.Availability) ledger.Command {
	return ledger.Command{Avail: &ledger.SetAvailability{Peer: peer, Availability: to}}
}

// endedAs is the end of an attempt.
func endedAs(id taskstate.JobID, slot, attempt int, st taskstate.State) taskstate.Status {
	s := ended(id, slot, st)
	s.Task.Attempt = attempt
	return s
}

func (l *log) slot(id taskstate.JobID, n int) ledger.SlotRecord { return l.record(id).Slot(n) }

func TestALeavingSlotWaitsAgainWhateverItsEndWas(t *testing.T) {
	for name, end := range map[string]ledger.Command{
		"complete":    settle("p2", ended("j", 1, taskstate.Complete)),
		"failed":      settle("p2", ended("j", 1, taskstate.Failed)),
		"shutdown":    settle("p2", ended("j", 1, taskstate.Shutdown)),
		"rejected":    settle("p2", ended("j", 1, taskstate.Rejected)),
		"given up":    supersede(taskstate.Task("j", 1, 1), true),
		"decided":     supersede(taskstate.Task("j", 1, 1), false),
		"peer left":   {Depart: &ledger.Depart{Peer: "p2"}},
		"peer wiped":  {Register: &ledger.Register{Peer: "p2", Incarnation: "i2"}},
		"peer is out": {Remove: &ledger.Remove{Peer: "p2"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			none := service("j", 1)
			none.Submit.Job.Restart = nil
			l.must(none, assignOf(1, "j", "p2", run(1, 1, 1)))
			l.must(update(spec(none, 2), 1), renew("j", 2, run(1, 1, 1)))
			if s := l.slot("j", 1); s.Leaving != taskstate.ReasonUpdated || s.Next != 2 || s.Version != 1 || !s.Open {
				t.Fatalf("it leaves as %+v", s)
			}
			r := l.one(end)
			want := ledger.Again{Job: "j", Slots: run(1, 1, 2), Version: 2}
			if s := l.slot("j", 1); !s.Pending() || s.Attempt != 2 || s.Version != 2 || !slices.Equal(r.Again, []ledger.Again{want}) {
				t.Errorf("it is %+v, and the result says %+v", s, r.Again)
			}
		})
	}
}

func TestASlotThatMustNotRunTwiceIsNotRenewedByALostPeer(t *testing.T) {
	l := newLog(t)
	c := service("j", 1)
	c.Submit.Job.Unreachable.Wait = true
	l.must(c, assignOf(1, "j", "p2", run(1, 1, 1)), renew("j", 0, run(1, 1, 1)), ledger.Command{Depart: &ledger.Depart{Peer: "p2"}})
	if s := l.slot("j", 1); s.Final == nil || s.Final.State != taskstate.Orphaned || s.Leaving != "" {
		t.Errorf("it is %+v", s)
	}
}

func TestARetiredSlotComesBackInAnAttemptNobodyHasSeenEnd(t *testing.T) {
	l := newLog(t)
	l.must(service("j", 3), assignOf(1, "j", "p2", run(1, 1, 1)), retire("j", run(1, 2, 1)))
	if s := l.slot("j", 2); !s.Retired || s.Final == nil || s.Final.State != taskstate.Shutdown || s.Final.Reason != taskstate.ReasonScaled {
		t.Errorf("one that waited: %+v", s)
	}
	if s := l.slot("j", 1); !s.Retired || !s.Open || s.Leaving != taskstate.ReasonScaled {
		t.Errorf("one that runs: %+v", s)
	}
	l.must(settle("p2", ended("j", 1, taskstate.Failed)))
	if c := l.record("j").Counts(); c != (ledger.Counts{Retired: 2, Pending: 1}) {
		t.Errorf("counts %+v", c)
	}
	l.must(retire("j", run(1, 2, 0)), renew("j", 0, run(1, 2, 1)))
	for n := 1; n <= 2; n++ {
		if s := l.slot("j", n); !s.Pending() || s.Attempt != 2 || s.Retired {
			t.Errorf("renewed: %+v", s)
		}
	}
	l.refuses(ledger.CodePartly, renew("j", 0, run(1, 1, 1))) // the slot has moved on
}

func TestAnOpenSlotThatWasRetiredCanBeKeptAfterAll(t *testing.T) {
	l := newLog(t)
	l.must(service("j", 1), assignOf(1, "j", "p2", run(1, 1, 1)), retire("j", run(1, 1, 1)), renew("j", 0, run(1, 1, 1)))
	l.must(settle("p2", ended("j", 1, taskstate.Shutdown)))
	if s := l.slot("j", 1); !s.Pending() || s.Attempt != 2 {
		t.Errorf("it is %+v", s)
	}
}

func TestALateSuccessDoesNotEndASlotOfAService(t *testing.T) {
	l := newLog(t)
	l.must(service("j", 1), assignOf(1, "j", "p2", run(1, 1, 1)), supersede(taskstate.Task("j", 1, 1), true), assignOf(1, "j", "p1", run(1, 1, 2)))
	r := l.one(settle("p2", ended("j", 1, taskstate.Complete)))
	if s := l.slot("j", 1); !s.Open || s.Attempt != 2 || len(r.Overtaken) != 0 {
		t.Errorf("it is %+v, overtaken %v", s, r.Overtaken)
	}
	if p := l.record("j").Past(1); len(p) != 1 || p[0].Late == nil || p[0].Version != 1 {
		t.Errorf("past %+v", p)
	}
}

func TestAnEndHeardTwiceIsNoContradiction(t *testing.T) {
	l := newLog(t)
	first := ended("j", 1, taskstate.Failed)
	first.Message = string(make([]byte, 900)) // longer than what is kept of it
	l.must(service("j", 1), assignOf(1, "j", "p2", run(1, 1, 1)), settle("p2", first))
	l.one(settle("p2", first))
	if n := l.record("j").Conflicts(); n != 0 {
		t.Errorf("%d contradictions after a repetition", n)
	}
	other := first
	other.State = taskstate.Complete
	l.one(settle("p2", other))
	if n := l.record("j").Conflicts(); n != 1 || !l.slot("j", 1).Pending() {
		t.Errorf("%d contradictions, the slot is %+v", n, l.slot("j", 1))
	}
}

func TestAServiceIsOverWhenItWasCancelledOrNothingOfItWillRunAgain(t *testing.T) {
	l := newLog(t)
	c := service("j", 2)
	c.Submit.Job.Restart = nil
	l.must(c, assignOf(1, "j", "p2", run(1, 2, 1)), retire("j", run(1, 2, 1)))
	l.must(settle("p2", ended("j", 1, taskstate.Shutdown), ended("j", 2, taskstate.Shutdown)))
	if st := l.record("j").State(); st != taskstate.Running {
		t.Fatalf("scaled to nothing it is %v", st)
	}
	l.must(renew("j", 0, run(1, 2, 0)), assignOf(1, "j", "p2", run(1, 2, 2)))
	l.must(settle("p2", endedAs("j", 1, 2, taskstate.Complete)))
	if st := l.record("j").State(); st != taskstate.Running {
		t.Errorf("with one left it is %v", st)
	}
	l.must(settle("p2", endedAs("j", 2, 2, taskstate.Complete)))
	if st := l.record("j").State(); st != taskstate.Complete {
		t.Errorf("with none left, and no restarts, it is %v", st)
	}

	l.must(service("k", 2), assignOf(1, "k", "p2", run(1, 1, 1)), cancel("k"))
	if c := l.record("k").Counts(); c != (ledger.Counts{Open: 1, Shutdown: 1}) {
		t.Errorf("cancelled: %+v", c)
	}
	l.must(settle("p2", ended("k", 1, taskstate.Failed)))
	if st := l.record("k").State(); st != taskstate.Shutdown || !slices.Contains(l.JustEnded(), "k") {
		t.Errorf("cancelled it ends as %v", st)
	}
	l.refuses(ledger.CodeOver, renew("k", 0, run(1, 1, 0)))
}

func TestTheCoordinatorCanStillRollBackAfterEverythingFailed(t *testing.T) {
	l := newLog(t)
	c := service("j", 1)
	c.Submit.Job.Restart = nil
	l.must(c, update(spec(c, 2), 1), renew("j", 2, run(1, 1, 1)), assignOf(2, "j", "p2", run(1, 1, 1)), settle("p2", ended("j", 1, taskstate.Failed)))
	if st := l.record("j").State(); st != taskstate.Running {
		t.Fatalf("in the middle of a rollout it is %v", st)
	}
	l.must(rollout("j", taskstate.RolloutCompleted))
	if st := l.record("j").State(); st != taskstate.Failed {
		t.Errorf("after it, it is %v", st)
	}
}

func TestAssignIsRefusedForWhatNoLongerHolds(t *testing.T) {
	l := newLog(t)
	global := submit("g", 0)
	global.Submit.Job.Type = taskstate.GlobalJob
	l.must(service("s", 2), global, submit("b", 1))
	l.must(ledger.Command{Grow: &ledger.Grow{Job: "g", Peers: []taskstate.PeerID{"p1", "p2", "p1"}}})
	if j := l.record("g"); j.Slots() != 2 || j.Pin(1) != "p1" || j.Pin(2) != "p2" {
		t.Fatalf("%d slots", j.Slots())
	}
	if r := l.one(ledger.Command{Grow: &ledger.Grow{Job: "g", Peers: []taskstate.PeerID{"p2"}}}); !r.Existed || len(r.Again) != 0 {
		t.Errorf("a second slot for a peer: %+v", r)
	}
	l.refuses(ledger.CodePartly, assignOf(2, "s", "p2", run(1, 1, 1)))
	l.refuses(ledger.CodePartly, assignOf(0, "s", "p2", run(1, 1, 1)))
	l.refuses(ledger.CodePartly, assignOf(1, "g", "p2", run(1, 1, 1)))
	l.refuses(ledger.CodeConflict, assignOf(1, "b", "p2", run(1, 1, 1)))
	l.must(avail("p2", ledger.AvailPause))
	l.refuses(ledger.CodeUnavailable, assignOf(1, "s", "p2", run(1, 1, 1)))
	l.must(avail("p2", ledger.AvailDrain), ledger.Command{Register: &ledger.Register{Peer: "p2", Incarnation: "i1"}})
	l.refuses(ledger.CodeUnavailable, assignOf(1, "s", "p2", run(1, 1, 1)))
	l.must(avail("p2", ledger.AvailActive), assignOf(1, "s", "p2", run(1, 1, 1)), assignOf(1, "g", "p2", run(2, 1, 1)))
	l.refuses(ledger.CodeUnknown, avail("p9", ledger.AvailDrain))
	l.refuses(ledger.CodeInvalid, avail("p2", "sleep"))
}

func TestLabelsAreLaidOverWhatAPeerSays(t *testing.T) {
	l := newLog(t)
	label := func(set map[string]string, unset ...string) ledger.Command {
		return ledger.Command{Label: &ledger.Label{Peer: "p2", Set: set, Unset: unset}}
	}
	l.must(label(map[string]string{"zone": "west", "disk": "ssd"}), label(nil, "disk", "rack"))
	before, _ := l.Member("p2")
	if r := l.one(label(map[string]string{"zone": "west"}, "rack")); !r.Existed {
		t.Errorf("the same again: %+v", r)
	}
	l.must(label(map[string]string{"rack": "7"}))
	m, _ := l.Member("p2")
	got := m.LabelsOver(map[string]string{"zone": "own", "rack": "own", "disk": "own", "gpu": "own"})
	if len(got) != 3 || got["zone"] != "west" || got["rack"] != "7" || got["gpu"] != "own" {
		t.Errorf("labels %v", got)
	}
	if len(before.Labels) != 1 || len(before.Removed) != 2 {
		t.Errorf("what was handed out has changed: %+v", before)
	}
	many := map[string]string{}
	for i := range ledger.MaxLabels {
		many[string(rune('a'+i%26))+string(rune('a'+i/26))] = "x"
	}
	for _, c := range []ledger.Command{label(many), label(nil), label(map[string]string{"": "x"}), label(map[string]string{"k": string(make([]byte, 600))})} {
		l.refuses(ledger.CodeInvalid, c)
	}
}

func TestARemovedPeerThatIsInvitedAgainStartsAfresh(t *testing.T) {
	l := newLog(t)
	l.must(avail("p2", ledger.AvailDrain), ledger.Command{Label: &ledger.Label{Peer: "p2", Unset: []string{"a"}}})
	l.must(ledger.Command{Remove: &ledger.Remove{Peer: "p2"}})
	l.refuses(ledger.CodeUnknown, avail("p2", ledger.AvailActive))
	l.must(invite("t", 1), admit("p2", "t"))
	if m, _ := l.Member("p2"); !m.Takes() || len(m.Removed) > 0 || !m.In() || m.Incarnation != "" {
		t.Errorf("member %+v", m)
	}
}

func TestWhoAddsSlotsTwiceNotKnowingThatTheyAreThereAddsThemOnce(t *testing.T) {
	l := newLog(t)
	l.must(service("j", 0))
	grow := ledger.Command{Grow: &ledger.Grow{Job: "j", N: 2, First: 1}}
	if r := l.one(grow); r.Refused != ledger.CodeNone || len(r.Again) != 1 {
		t.Fatalf("%+v", r)
	}
	if r := l.one(grow); r.Refused != ledger.CodeConflict || l.record("j").Slots() != 2 {
		t.Errorf("the second time: %+v, and %d slots", r, l.record("j").Slots())
	}
	grow.Grow.First = 3
	if r := l.one(grow); r.Refused != ledger.CodeNone || l.record("j").Slots() != 4 {
		t.Errorf("two more: %+v, and %d slots", r, l.record("j").Slots())
	}
}

func TestHowLongAnAttemptTookIsKeptWithItsEnd(t *testing.T) {
	const days50 = int64(50 * 24 * time.Hour / time.Millisecond)
	for _, took := range []int64{0, 1, 1500, 1<<32 - 1, 1 << 32, days50} {
		l := newLog(t)
		again := submit("job", 3)
		again.Submit.Job.Restart = &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 1, Window: 9000}
		l.must(again, assign("job", "p1", run(1, 3, 1)), supersede(taskstate.Task("job", 3, 1), true))
		end := func(slot int, state taskstate.State) taskstate.Status {
			s := ended("job", slot, state)
			s.Took, s.Waited, s.Truncated = took, 7, took > 1
			return s
		}
		l.must(settle("p1", end(1, taskstate.Complete), end(2, taskstate.Failed)))
		l.apply(settle("p1", end(3, taskstate.Failed)))
		for range 2 {
			j := l.record("job")
			past := j.Past(2)
			late := j.Past(3)
			if len(past) != 1 || past[0].End == nil || len(late) != 1 || late[0].Late == nil {
				t.Fatalf("past %+v, late %+v", past, late)
			}
			for _, s := range []*taskstate.Status{j.Slot(1).Final, past[0].End} {
				if s.Took != took || s.Waited != 7 || s.Truncated != (took > 1) {
					t.Errorf("%d ms became %+v", took, *s)
				}
			}
			if got := late[0].Late.Took; got != took {
				t.Errorf("late: %d ms became %d", took, got)
			}
			restored, err := ledger.DecodeState(encode(t, l.State))
			if err != nil {
				t.Fatal(err)
			}
			l.State = restored
		}
	}
}
