package worker

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// queueing is a queue of tasks that were accepted a while before now and wait for their turn.
func queueing(ago ...time.Duration) (q *queue, now time.Time) {
	q, now = &queue{}, time.Unix(1_000_000, 0)
	for _, d := range ago {
		q.accepted(&ownTask{status: taskstate.Status{State: taskstate.Accepted}}, now.Add(gatherTurn-d))
	}
	return q, now
}

func TestThatATaskWaitsForItsTurnIsSaidAfterAMoment(t *testing.T) {
	q, now := queueing(gatherTurn, gatherTurn-time.Millisecond)
	if said := q.overdue(now, false); len(said) != 1 || len(q.unsaid) != 1 {
		t.Fatalf("said of %d, %d are left", len(said), len(q.unsaid))
	}
	if want := now.Add(time.Millisecond); q.wake() != want {
		t.Fatalf("wake %v, want %v", q.wake(), want)
	}
	if said := q.overdue(q.wake(), false); len(said) != 1 || q.unsaid != nil || !q.wake().IsZero() {
		t.Fatalf("said of %d, %d are left", len(said), len(q.unsaid))
	}
}

func TestATaskWhoseTurnComesSoonNeverSaysThatItWaits(t *testing.T) {
	q, now := queueing(0)
	q.overdue(now, false)
	q.unsaid[0].phase = phaseStarted
	if said := q.overdue(now.Add(gatherTurn), false); len(said) != 0 || q.unsaid != nil {
		t.Errorf("said of %d, %d are left", len(said), len(q.unsaid))
	}
}

func TestAWorkerThatStopsSaysOfAllThatTheyWait(t *testing.T) {
	q, now := queueing(0, 0)
	if said := q.overdue(now, true); len(said) != 2 || q.unsaid != nil {
		t.Errorf("said of %d, %d are left", len(said), len(q.unsaid))
	}
}

func TestTheSoonerOfTwoTimesIsNeverTheOneThatNeverComes(t *testing.T) {
	never, early, late := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range [][3]time.Time{{never, never, never}, {never, early, early}, {early, never, early}, {late, early, early}, {early, late, early}} {
		if got := sooner(c[0], c[1]); got != c[2] {
			t.Errorf("of %v and %v the sooner is %v", c[0], c[1], got)
		}
	}
}

func TestAWorkerThatWaitsForItsDiskIsNotWokenByTheClock(t *testing.T) {
	q, now := queueing(gatherTurn)
	c := &Core{queue: *q, now: now, wake: now.Add(-time.Second), saving: &journal.Txn{}}
	if c.flush(); !c.wake.IsZero() {
		t.Errorf("it would be woken at %v, again and again", c.wake)
	}
}
