package care

import (
	"testing"

	"covey/dispatch/ledger"
	"covey/node/blob/piece"
	"covey/p2p/admission"
	"covey/taskstate"
)

// The success of an attempt that was given up counts as long as its slot has no end, so what it
// left must not go before.
func TestWhatAnAttemptLeftThatWasGivenUpStaysAsLongAsItsSlotHasNoEnd(t *testing.T) {
	s := ledger.NewState()
	n := uint64(0)
	do := func(cmd ledger.Command) {
		t.Helper()
		n++
		for _, r := range s.Apply(ledger.Entry{Index: n, Epoch: taskstate.At(1, 1), Stamp: int64(n), By: "a", Commands: []ledger.Command{cmd}}) {
			if r.Refused != ledger.CodeNone {
				t.Fatalf("%+v is refused: %s", cmd, r.Refused)
			}
		}
	}
	member := admission.Entry{Cluster: "simsimsimsimsims", Peer: "a", Name: "a", Roles: admission.AllRoles(), By: "a"}
	do(ledger.Command{Found: &ledger.Found{Cluster: member.Cluster, Generation: 1, Founder: member}})
	do(ledger.Command{Register: &ledger.Register{Peer: "a", Incarnation: "a1"}})
	do(ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{
		ID: "j", Name: "j", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Outputs: &taskstate.Outputs{Globs: []string{"out"}},
	}}})
	first := taskstate.Task("j", 1, 1)
	give := func(attempt int) {
		do(ledger.Command{Assign: &ledger.Assign{Job: "j", Peer: "a", Incarnation: "a1", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: attempt}}}})
	}
	expect := func(what string, want Fate) {
		t.Helper()
		if _, got := FateOf(s, first, "a"); got != want {
			t.Errorf("%s: what the first attempt left is %d, want %d", what, got, want)
		}
	}
	give(1)
	expect("it runs", IsOpen)
	do(ledger.Command{Supersede: &ledger.Supersede{Task: first, Reason: taskstate.ReasonUnreachable, Again: true}})
	expect("it was given up", IsOpen)
	give(2)
	expect("the second one runs", IsOpen)
	end := func(id taskstate.TaskID) ledger.Command {
		saved := &taskstate.Saved{Root: piece.Sum([]byte(id.String())), Keepers: []taskstate.PeerID{"a"}, Keep: 1}
		st := taskstate.Status{Task: id, Seq: 3, State: taskstate.Complete, Saved: saved}
		return ledger.Command{Settle: &ledger.Settle{Peer: "a", Incarnation: "a1", Statuses: []taskstate.Status{st}}}
	}
	do(end(first))
	expect("it succeeded all the same", IsKept)
	if _, got := FateOf(s, taskstate.Task("j", 1, 2), "a"); got != IsOver {
		t.Errorf("what the second attempt left is %d, want %d", got, IsOver)
	}
}
