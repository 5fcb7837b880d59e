package care

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// A slot that has come to nothing may be begun anew, and then the success of an attempt that was
// given up before counts, unless it was heard of meanwhile.
func TestWhatAnAttemptLeftThatWasGivenUpStaysUntilItsWorkerHasSaidHowItEnded(t *testing.T) {
	for _, retried := range []bool{false, true} {
		b := newGivenUp(t)
		b.give(2)
		b.do(ledger.Command{Settle: &ledger.Settle{Peer: "a", Incarnation: "a1", Statuses: []taskstate.Status{
			{Task: taskstate.Task("j", 1, 2), Seq: 3, State: taskstate.Failed, Exit: 1, Reason: taskstate.ReasonExit},
		}}})
		b.expect("its slot has failed", IsOpen)
		if retried {
			b.do(ledger.Command{Renew: &ledger.Renew{Job: "j", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 2}}, Reason: taskstate.ReasonRetried}})
			b.expect("it is retried", IsOpen)
			b.do(b.end(b.first))
			b.expect("it succeeded all the same", IsKept)
			continue
		}
		b.s.Apply(b.entry(b.end(b.first))) // refused: the slot has its end
		b.expect("it was heard of, and did not count", IsOver)
	}
}

// The success of an attempt that was given up counts as long as its slot has no end, so what it
// left must not go before.
func TestWhatAnAttemptLeftThatWasGivenUpStaysAsLongAsItsSlotHasNoEnd(t *testing.T) {
	b := newGivenUp(t)
	b.expect("it was given up", IsOpen)
	b.give(2)
	b.expect("the second one runs", IsOpen)
	b.do(b.end(b.first))
	b.expect("it succeeded all the same", IsKept)
	if _, got := LedgerStateOf(b.s, taskstate.Task("j", 1, 2), "a"); got != IsOver {
		t.Errorf("what the second attempt left is %d, want %d", got, IsOver)
	}
}

// givenUp is a ledger with a job of one slot, whose first attempt was given up.
type givenUp struct {
	t     *testing.T
	s     *ledger.State
	n     uint64
	first taskstate.TaskID
}

func newGivenUp(t *testing.T) *givenUp {
	t.Helper()
	b := &givenUp{t: t, s: ledger.NewState(), first: taskstate.Task("j", 1, 1)}
	member := admission.Entry{Cluster: "simsimsimsimsims", Peer: "a", Name: "a", Roles: admission.AllRoles(), By: "a"}
	b.do(ledger.Command{Found: &ledger.Found{Cluster: member.Cluster, Generation: 1, Founder: member}})
	b.do(ledger.Command{Register: &ledger.Register{Peer: "a", Incarnation: "a1"}})
	b.do(ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{
		ID: "j", Name: "j", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Outputs: &taskstate.Outputs{Globs: []string{"out"}},
	}}})
	b.give(1)
	b.expect("it runs", IsOpen)
	b.do(ledger.Command{Supersede: &ledger.Supersede{Task: b.first, Reason: taskstate.ReasonUnreachable, Again: true}})
	return b
}

func (b *givenUp) entry(cmd ledger.Command) ledger.Entry {
	b.n++
	return ledger.Entry{Index: b.n, Epoch: taskstate.At(1, 1), Stamp: int64(b.n), By: "a", Commands: []ledger.Command{cmd}}
}

func (b *givenUp) do(cmd ledger.Command) {
	b.t.Helper()
	for _, r := range b.s.Apply(b.entry(cmd)) {
		if r.Refused != ledger.CodeNone {
			b.t.Fatalf("%+v is refused: %s", cmd, r.Refused)
		}
	}
}

func (b *givenUp) give(attempt int) {
	b.t.Helper()
	b.do(ledger.Command{Assign: &ledger.Assign{Job: "j", Peer: "a", Incarnation: "a1", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: attempt}}}})
}

func (b *givenUp) expect(what string, want LedgerState) {
	b.t.Helper()
	if _, got := LedgerStateOf(b.s, b.first, "a"); got != want {
		b.t.Errorf("%s: what the first attempt left is %d, want %d", what, got, want)
	}
}

// end is the success of an attempt.
func (b *givenUp) end(id taskstate.TaskID) ledger.Command {
	saved := &taskstate.Saved{Root: piece.Sum([]byte(id.String())), Keepers: []taskstate.PeerID{"a"}, Keep: 1}
	st := taskstate.Status{Task: id, Seq: 3, State: taskstate.Complete, Saved: saved}
	return ledger.Command{Settle: &ledger.Settle{Peer: "a", Incarnation: "a1", Statuses: []taskstate.Status{st}}}
}
