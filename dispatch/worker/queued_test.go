package worker

import (
	"testing"
	"time"

	"covey/dispatch/worker/journal"
	"covey/taskstate"
)

// queueing is a core with tasks that were accepted a while ago and wait for their turn.
func queueing(ago ...time.Duration) *Core {
	c := gathering(len(ago))
	for _, d := range ago {
		c.fresh = append(c.fresh, freshTask{&heldTask{phase: phaseQueued, status: taskstate.Status{State: taskstate.Accepted}}, c.now.Add(-d)})
	}
	return c
}

func TestThatATaskWaitsForItsTurnIsSaidAfterAMoment(t *testing.T) {
	c := queueing(gatherTurn, gatherTurn-time.Millisecond)
	c.showQueued()
	if len(c.dirty) != 1 || len(c.fresh) != 1 {
		t.Fatalf("said of %d, %d are left", len(c.dirty), len(c.fresh))
	}
	c.wakeForQueued()
	if want := c.now.Add(time.Millisecond); c.wake != want {
		t.Fatalf("wake %v, want %v", c.wake, want)
	}
	c.now = c.wake
	if c.showQueued(); len(c.dirty) != 2 || c.fresh != nil {
		t.Fatalf("said of %d, %d are left", len(c.dirty), len(c.fresh))
	}
}

func TestATaskWhoseTurnComesSoonNeverSaysThatItWaits(t *testing.T) {
	c := queueing(0)
	c.showQueued()
	c.fresh[0].phase = phaseStarted
	c.now = c.now.Add(gatherTurn)
	if c.showQueued(); len(c.dirty) != 0 || c.fresh != nil {
		t.Errorf("said of %d, %d are left", len(c.dirty), len(c.fresh))
	}
}

func TestAnEarlierWakeIsNotPutOff(t *testing.T) {
	c := queueing(0)
	early := c.now.Add(time.Millisecond)
	c.wake = early
	if c.wakeForQueued(); c.wake != early {
		t.Errorf("wake %v, want %v", c.wake, early)
	}
}

func TestAWorkerThatWaitsForItsDiskIsNotWokenByTheClock(t *testing.T) {
	c := queueing(gatherTurn)
	c.wake = c.now.Add(-time.Second)
	c.saving = &journal.Txn{}
	if c.flush(); !c.wake.IsZero() {
		t.Errorf("it would be woken at %v, again and again", c.wake)
	}
}
