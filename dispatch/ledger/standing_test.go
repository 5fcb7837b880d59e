package ledger_test

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// A peer may hear of an attempt before its replica hears that the slot was renewed. It must keep
// that: whatever it takes for retired it forgets for good.
func TestAnAttemptNewerThanTheSlotsIsStillToBeHeardOf(t *testing.T) {
	l := newLog(t)
	service := taskstate.Job{ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 2, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	l.must(ledger.Command{Submit: &ledger.Submit{Job: service}},
		ledger.Command{Retire: &ledger.Retire{Job: "s", Slots: []ledger.Slots{{First: 1, N: 1}}}},
		ledger.Command{Assign: &ledger.Assign{Job: "s", Peer: "p1", Incarnation: "i1", Version: 1, Slots: []ledger.Slots{{First: 2, N: 1, Attempt: 1}}}})
	end := taskstate.Status{Task: taskstate.Task("s", 2, 1), Seq: 3, State: taskstate.Complete}
	l.must(ledger.Command{Settle: &ledger.Settle{Peer: "p1", Incarnation: "i1", Statuses: []taskstate.Status{end}}})
	for _, c := range []struct {
		slot, attempt int
		want          taskstate.LedgerView
	}{{1, 1, taskstate.Retired}, {1, 2, taskstate.Unknown}, {2, 1, taskstate.Retired}, {2, 2, taskstate.Unknown}} {
		if _, _, _, st := l.Assigned(taskstate.Task("s", c.slot, c.attempt)); st != c.want {
			t.Errorf("slot %d, attempt %d: standing %v, want %v", c.slot, c.attempt, st, c.want)
		}
	}
}
