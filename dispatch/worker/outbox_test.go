package worker

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// gatherer is an outbox, with what the core tells it.
type gatherer struct {
	outbox
	now, wake time.Time
	live      int
}

// gathering has these statuses waiting and so many tasks alive.
func gathering(live int, states ...taskstate.State) *gatherer {
	start := time.Unix(1_000_000, 0)
	g := &gatherer{outbox: outbox{gather: gatherEnds, dirtySince: start, lastBatch: start}, now: start, live: live}
	for _, s := range states {
		g.dirty = append(g.dirty, &ownTask{status: taskstate.Status{State: s}})
	}
	return g
}

func (g *gatherer) gathered() (ok bool) {
	g.wake, ok = g.due(g.now, g.live)
	return ok
}

func TestTheEndOfTheLastTaskGoesAtOnce(t *testing.T) {
	if c := gathering(0, taskstate.Running, taskstate.Complete); !c.gathered() {
		t.Fatal("it waits although nothing else lives here")
	}
}

func TestAnEndWaitsForOthersWhileTasksLiveButNotLongerThanTheLimit(t *testing.T) {
	c := gathering(3, taskstate.Complete)
	if c.gathered() {
		t.Fatal("it went alone while three tasks live")
	}
	if want := c.lastBatch.Add(gatherEnds); c.wake != want {
		t.Fatalf("wake %v, want %v", c.wake, want)
	}
	c.now = c.wake
	if !c.gathered() {
		t.Fatal("it waits past the limit")
	}
	if !c.wake.IsZero() {
		t.Fatal("a wake is left over")
	}
}

func TestAnEndDoesNotWaitWhenTheLastBatchWasLongAgo(t *testing.T) {
	c := gathering(3, taskstate.Complete)
	c.lastBatch = c.now.Add(-time.Minute)
	if !c.gathered() {
		t.Fatal("it waits although no batch went for a minute")
	}
}

func TestThatATaskRunsIsSaidAfterAMomentSoThatAShortOneOnlySaysItsEnd(t *testing.T) {
	c := gathering(1, taskstate.Running)
	if c.gathered() {
		t.Fatal("it is said at once")
	}
	c.now = c.now.Add(gatherRuns)
	if !c.gathered() {
		t.Fatal("it is still not said")
	}
}

func TestAWholeBatchAndAStoppingWorkerDoNotWait(t *testing.T) {
	states := make([]taskstate.State, gatherFull)
	for i := range states {
		states[i] = taskstate.Complete
	}
	if c := gathering(1000, states...); !c.gathered() {
		t.Fatal("a whole batch waits")
	}
	g := gathering(3, taskstate.Complete)
	for _, stopping := range []bool{false, true} {
		c, txn := &Core{outbox: g.outbox, now: g.now, stopping: stopping, held: tasks{live: g.live}}, journal.Txn{}
		if c.batch(&txn); len(txn.Batches) == 0 == stopping {
			t.Fatalf("stopping %v: %d batches", stopping, len(txn.Batches))
		}
	}
}

func TestWhereManyEndTheyGatherForLonger(t *testing.T) {
	c := gathering(3, taskstate.Complete, taskstate.Failed, taskstate.Complete, taskstate.Running, taskstate.Shutdown)
	c.now = c.lastBatch.Add(gatherEnds)
	if c.gathered() {
		t.Fatal("a stream of ends goes in batches as small as a lone one")
	}
	if want := c.lastBatch.Add(gatherMany); c.wake != want {
		t.Fatalf("wake %v, want %v", c.wake, want)
	}
	c.now = c.wake
	if !c.gathered() {
		t.Fatal("they wait past the limit")
	}
	c.now, c.live = c.lastBatch, 0
	if !c.gathered() {
		t.Fatal("they wait although nothing else lives here")
	}
}

func TestNothingIsDueWhileTheDiskIsAtWork(t *testing.T) {
	b := newBox(t)
	b.gather = gatherEnds
	b.boot()
	b.session(1)
	b.down(setOf(false, 1, 1, 2, grantOf(jobWork, 1, 2)))
	b.settle()
	b.runs(wtask(jobWork, 1))
	b.wait() // that it runs is said now
	b.settle()
	b.ups = nil
	b.finish(wtask(jobWork, 1), taskstate.Complete, "")
	if b.core.wake.IsZero() {
		t.Fatal("the end does not wait for others")
	}
	b.down(setOf(false, 1, 2, 3, grantOf(jobWork, 3, 1)))
	if b.txn == nil {
		t.Fatal("an assignment does not go to the disk at once")
	}
	if !b.core.wake.IsZero() {
		t.Fatalf("it wants to be woken at %v, when it could do nothing", b.core.wake)
	}
	b.now = b.now.Add(time.Minute)
	b.save()
	b.wait()
	b.settle()
	wantSaid(t, b, "work222222.1.1 complete")
}
