package ledger_test

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

func grow(id taskstate.JobID, n int) ledger.Command {
	return ledger.Command{Grow: &ledger.Grow{Job: id, N: n}}
}

// from makes a command follow from what was seen up to an index.
func from(seen uint64, c ledger.Command) ledger.Command {
	sawUpTo(&c, seen)
	return c
}

// following lists a command of each kind that follows from what was seen up to an index.
func following(seen uint64) []ledger.Command {
	return []ledger.Command{
		from(seen, grow("j", 2)), from(seen, renew("j", 0, run(1, 1, 1))), from(seen, retire("j", run(2, 1, 1))), from(seen, rollout("j", taskstate.RolloutCompleted)),
	}
}

func TestWhatFollowsFromASpecOrARolloutThatIsNotSoAnyMoreChangesNothing(t *testing.T) {
	other := service("j", 1) // restarts nothing: the version stays
	for what, change := range map[string]ledger.Command{
		"spec": update(other, 2), "version": update(spec(other, 3), 2), "rollout": rollout("j", taskstate.RolloutPaused), "turned back": rollout("j", taskstate.RolloutRollingBack),
	} {
		l := newLog(t)
		c := service("j", 3)
		l.must(c, assignOf(1, "j", "p2", run(1, 3, 1)), update(spec(c, 2), 1))
		if what == "spec" {
			change = update(spec(other, 2), 2)
		}
		seen := l.Index()
		l.must(change)
		for _, late := range following(seen) {
			l.refuses(ledger.CodeConflict, late)
		}
		j := l.record("j")
		if a, b := j.Slot(1), j.Slot(2); j.Slots() != 3 || a.Leaving != "" || b.Leaving != "" || j.Rollout().State == taskstate.RolloutCompleted {
			t.Errorf("%s: %d slots, %+v, %+v, %+v", what, j.Slots(), a, b, j.Rollout())
		}
		back, err := ledger.DecodeState(encode(t, l.State))
		if err != nil {
			t.Fatal(err)
		}
		l.State = back
		for _, late := range following(seen) {
			l.refuses(ledger.CodeConflict, late)
		}
		l.must(from(l.Index(), grow("j", 1)))
	}
}

func TestWhatFollowsFromTheSlotsThereWereChangesNothingOnceOthersAreDecided(t *testing.T) {
	for what, change := range map[string]ledger.Command{"added": grow("j", 1), "renewed": renew("j", 0, run(3, 1, 1)), "retired": retire("j", run(3, 1, 1))} {
		l := newLog(t)
		c := service("j", 3)
		l.must(c, assignOf(1, "j", "p2", run(1, 3, 1)), update(spec(c, 2), 1))
		seen := l.Index()
		l.must(change)
		slots := l.record("j").Slots()
		for _, late := range following(seen) {
			l.refuses(ledger.CodeConflict, late)
		}
		if j := l.record("j"); j.Slots() != slots || j.Slot(1).Leaving != "" || j.Slot(2).Leaving != "" {
			t.Errorf("%s: %d slots, %+v, %+v", what, j.Slots(), j.Slot(1), j.Slot(2))
		}
		l.must(settle("p2", endedAs("j", 1, 1, taskstate.Failed))) // its restart is no decision about what it is to be
		l.must(from(l.Index()-1, retire("j", run(2, 1, 1))))
	}
}

func TestWhatOneStepComesToIsDecidedTogether(t *testing.T) {
	l := newLog(t)
	c := service("j", 3)
	l.must(c, assignOf(1, "j", "p2", run(1, 3, 1)), update(spec(c, 2), 1))
	l.must(following(l.Index())...)
	seen := l.Index() - 1
	results := l.apply(append([]ledger.Command{renew("j", 0, run(3, 1, 1))}, following(seen)...)...) // beside something else, but from before the last step
	for i, r := range results[1:] {
		if r.Refused != ledger.CodeConflict {
			t.Errorf("command %d is answered %+v", i, r)
		}
	}
}

func TestADecisionAboutASlotIsNotOneAboutItsNextAttempt(t *testing.T) {
	l := newLog(t)
	l.must(service("j", 2), assignOf(1, "j", "p2", run(1, 2, 1)))
	seen := l.Index()
	l.must(settle("p2", endedAs("j", 1, 1, taskstate.Failed)), assignOf(1, "j", "p1", run(1, 1, 2)))
	for _, late := range []ledger.Command{from(seen, renew("j", 0, run(1, 1, 1))), from(seen, retire("j", run(1, 1, 1)))} {
		if r := l.one(late); r.Refused != ledger.CodePartly || len(r.Slots) != 1 {
			t.Errorf("answered %+v", r)
		}
	}
	if s := l.record("j").Slot(1); !s.Open || s.Leaving != "" || s.Attempt != 2 {
		t.Errorf("slot 1 is %+v", s)
	}
}

func TestDecisionsOfBeforeTheyNamedWhatTheySawAreReadAsTheyWere(t *testing.T) {
	type oldGrow struct {
		Job     taskstate.JobID `cbor:"1,keyasint"`
		N       int             `cbor:"2,keyasint,omitempty"`
		Version int             `cbor:"4,keyasint,omitempty"`
		First   int             `cbor:"5,keyasint,omitempty"`
	}
	b, err := wire.Marshal(oldGrow{Job: "j", N: 2, Version: 1, First: 2})
	if err != nil {
		t.Fatal(err)
	}
	var g ledger.Grow
	if err := wire.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	l := newLog(t)
	l.must(service("j", 1), update(service("j", 2), 1))
	l.must(ledger.Command{Grow: &g})
	if n := l.record("j").Slots(); n != 3 {
		t.Errorf("%d slots, want 3", n)
	}
}
