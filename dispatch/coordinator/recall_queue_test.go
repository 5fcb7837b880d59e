package coordinator

import (
	"testing"

	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

func TestTheQueueOfTasksOfOneSizeIsCountedExactlyAndOthersAreRoundedEitherWay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		need, runs, queue := rapid.Int64Range(1, 4000).Draw(rt, "need"), rapid.Int64Range(1, 20).Draw(rt, "runs"), rapid.Int64Range(0, 50).Draw(rt, "queue")
		p := &peerState{outstanding: int(runs + queue), promised: taskstate.Resources{MilliCPU: need * (runs + queue)}}
		p.offer.Resources.MilliCPU = need * runs
		if p.queued() != int(queue) || p.queuedWarily(p.taken(nil)) != int(queue) {
			rt.Fatalf("%d and %d, want %d", p.queued(), p.queuedWarily(p.taken(nil)), queue)
		}
		p.promised.MilliCPU += rapid.Int64Range(1, 4000).Draw(rt, "another")
		p.outstanding++
		if a, b := p.queued(), p.queuedWarily(p.taken(nil)); b < a || b > a+1 || a < 1 {
			rt.Fatalf("%d and %d", a, b)
		}
	})
}

// Three of two cpus each, on two cpus, and one of half a cpu: with three that wait there is no room
// for a fourth.
func TestAShortTaskInALongQueueIsNotOverlooked(t *testing.T) {
	p := &peerState{outstanding: 4, promised: taskstate.Resources{MilliCPU: 6500}}
	p.offer.Resources.MilliCPU = 2000
	if p.queuedWarily(p.taken(nil)) != 3 {
		t.Errorf("%d wait, want 3", p.queuedWarily(p.taken(nil)))
	}
}
