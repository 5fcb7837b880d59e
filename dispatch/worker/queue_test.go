package worker

import (
	"testing"

	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

func TestATaskPassesThoseThatWaitForWhatItDoesNotNeed(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWide, 1, 3), grantOf(jobWork, 1, 3))
	wantRunning(t, b, wtask(jobWide, 1), wtask(jobWork, 1), wtask(jobWork, 2))
	b.finish(wtask(jobWork, 1), taskstate.Complete, "")
	wantRunning(t, b, wtask(jobWide, 1), wtask(jobWork, 2), wtask(jobWork, 3))
	b.finish(wtask(jobWide, 1), taskstate.Complete, "")
	wantRunning(t, b, wtask(jobWide, 2), wtask(jobWork, 2), wtask(jobWork, 3))
}

func TestTheFirstThatWaitsGetsWhatComesFree(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 1), grantOf(jobPair, 1, 1), grantOf(jobWork, 2, 2))
	wantRunning(t, b, wtask(jobWork, 1)) // a cpu is free, and is kept
	b.finish(wtask(jobWork, 1), taskstate.Complete, "")
	wantRunning(t, b, wtask(jobPair, 1))
	b.finish(wtask(jobPair, 1), taskstate.Complete, "")
	wantRunning(t, b, wtask(jobWork, 2), wtask(jobWork, 3))
}

// Nor is it marked as begun because others pass it: after a crash it must be known that it was not.
func TestWhatMustNotRunTwiceIsPassedOnlyByWhatIsMarked(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 2), grantOf(jobOnce, 1, 1), grantOf(jobWide, 1, 1))
	wantRunning(t, b, wtask(jobWork, 1), wtask(jobWork, 2))
	b.crash(false)
	b.open()
	b.down(welcomeIn(1))
	b.settle()
	b.said()
	b.down(setOf(true, 1, 0, 1, grantOf(jobOnce, 1, 1), grantOf(jobWide, 1, 1)))
	b.settle()
	wantRunning(t, b, wtask(jobOnce, 1), wtask(jobWide, 1))
}

func TestWhatPassesLeavesTheQueueInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &Core{offer: testOffer(), begun: 1000}
		bodies := map[taskstate.JobID]*ownJob{}
		for n := range rapid.IntRange(1, 200).Draw(rt, "tasks") {
			id := rapid.SampledFrom([]taskstate.JobID{jobWork, jobWide, jobPair}).Draw(rt, "job")
			if bodies[id] == nil {
				j := testJob(id)
				bodies[id] = &ownJob{job: &j}
			}
			at := rapid.SampledFrom([]phase{phaseQueued, phaseQueued, phaseQueued, phaseOver}).Draw(rt, "phase")
			c.queue.add(&ownTask{job: bodies[id], frame: &ownFrame{}, phase: at, order: uint64(n + 1)})
		}
		for began := true; began; {
			before, first := c.held.runs, waiting(c)
			c.serveQueue()
			began = c.held.runs > before
			if free := c.offer.Resources.Sub(c.held.used); free.MilliCPU < 0 || free.Memory < 0 {
				rt.Fatalf("more is promised than there is: %+v", free)
			}
			if first != nil && first.phase == phaseQueued && first.job.job.Resources.Fits(c.offer.Resources.Sub(c.held.used)) {
				rt.Fatalf("the first fits and waits")
			}
			for i, h := range c.queue.tasks {
				if i > 0 && h.order <= c.queue.tasks[i-1].order {
					rt.Fatal("the queue is out of order")
				}
				if i < maxPassed && h.phase != phaseQueued {
					rt.Fatalf("place %d: phase %v stands in the queue", i, h.phase)
				}
			}
			if next := waiting(c); next != nil && c.held.used != (taskstate.Resources{}) { // one that runs ends
				c.held.used = taskstate.Resources{}
				began = true
			}
		}
		if waiting(c) != nil {
			rt.Fatalf("somebody never starts: %d are left", len(c.queue.tasks))
		}
	})
}

// waiting is the first task that waits.
func waiting(c *Core) *ownTask {
	for _, h := range c.queue.tasks {
		if h.phase == phaseQueued {
			return h
		}
	}
	return nil
}
