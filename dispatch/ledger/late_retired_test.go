package ledger_test

import (
	"bytes"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// Somebody cancels a task, and before the peer that has its newest attempt can stop it, the attempt
// that was given up turns out to have succeeded. The attempt to be stopped is over then; a state
// that still has it leave is one that no snapshot can carry.
func TestALateSuccessOfATaskThatIsBeingCancelledLeavesAStateThatCanBeCopied(t *testing.T) {
	l := replaced(t)
	l.must(
		assign("j", "p1", run(1, 1, 2)),
		ledger.Command{Retire: &ledger.Retire{Job: "j", Slots: []ledger.Slots{run(1, 1, 2)}, Reason: taskstate.ReasonCancelled}},
	)
	if res := l.one(settle("p2", ended("j", 1, taskstate.Complete))); res.Overtaken == nil {
		t.Fatalf("%+v", res)
	}
	again, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, again), encode(t, l.State)) {
		t.Error("the copy differs")
	}
	if s := l.record("j").Slot(1); s.Open || s.Final == nil || s.Final.State != taskstate.Complete || !s.Retired {
		t.Errorf("%+v", s)
	}
	l.refuses(ledger.CodePartly, settle("p1", ended("j", 1, taskstate.Shutdown)))
}

// An attempt that came back with its success overtook later ones. Their numbers are used.
func TestASlotThatWasOvertakenGetsNoNumberTwice(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 2), assign("j", "p2", run(1, 2, 1)), supersede(taskstate.Task("j", 1, 1), true))
	l.must(assign("j", "p1", run(1, 1, 2)), supersede(taskstate.Task("j", 1, 2), true), settle("p2", ended("j", 1, taskstate.Complete)))
	l.must(renew("j", 0, run(1, 1, 1)))
	if s := l.record("j").Slot(1); !s.Pending() || s.Attempt != 3 {
		t.Errorf("it waits for %+v", s)
	}
	late := ended("j", 1, taskstate.Complete)
	late.Task.Attempt = 2
	l.must(settle("p1", late)) // it counts: the slot has no end
	if s := l.record("j").Slot(1); s.Attempt != 2 || s.Final == nil || s.Peer != "p1" {
		t.Errorf("after the success of attempt 2: %+v", s)
	}
}
