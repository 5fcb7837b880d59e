package worker

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// goodbyes counts how often the worker said it on the open stream.
func (b *box) goodbyes() (n int) {
	for _, u := range b.ups {
		if u.Goodbye != nil {
			n++
		}
	}
	return n
}

func TestAStoppingWorkerGivesBackWhatReachesItLate(t *testing.T) {
	b := newBox(t)
	b.session(1)
	b.step(Stop{})
	if b.goodbyes() != 1 {
		t.Fatalf("sent %v", b.ups)
	}
	if _, acked := b.core.Quiet(); acked {
		t.Fatal("it has nothing, but something may be on its way")
	}
	b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 2), grantOf(jobOnce, 1, 1)))
	b.settle()
	wantRunning(t, b)
	wantSaid(t, b, "noop222222.1.1 rejected interrupted", "noop222222.2.1 rejected interrupted", "once222222.1.1 rejected interrupted")
	b.down(session.Down{Released: &session.Released{}})
	if _, acked := b.core.Quiet(); acked {
		t.Fatal("gone before the coordinator has decided who gets them")
	}
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.settle()
	if _, acked := b.core.Quiet(); !acked {
		t.Fatal("not gone, though nothing is left and nothing comes")
	}
}

func TestAStoppingWorkerSaysGoodbyeToTheNextCoordinatorToo(t *testing.T) {
	b := newBox(t)
	b.session(1)
	b.step(Stop{})
	b.step(Closed{b.stream})
	if _, acked := b.core.Quiet(); !acked {
		t.Fatal("it waits for a coordinator though it has nothing to say")
	}
	b.open()
	b.down(welcomeIn(2))
	b.settle()
	if b.goodbyes() != 1 {
		t.Fatalf("sent %v", b.ups)
	}
	b.down(setOf(true, 2, 0, 1, grantOf(jobNoop, 1, 1)))
	b.settle()
	wantSaid(t, b, "noop222222.1.1 rejected interrupted")
}

func TestAWorkerThatWillBeBackGivesBackOnlyWhatHasNotStarted(t *testing.T) {
	b := newBox(t)
	b.session(1)
	b.down(setOf(false, 1, 1, 2, grantOf(jobWork, 1, 40)))
	b.settle()
	ran := b.sorted()
	if len(ran) == 0 || len(ran) == 40 {
		t.Fatalf("%d of 40 run: the test needs some that wait", len(ran))
	}
	halts := len(b.halted)
	b.step(Detach{})
	b.settle()
	if len(b.halted) != halts {
		t.Fatalf("stopped %v", b.halted[halts:])
	}
	if b.goodbyes() != 1 {
		t.Fatalf("sent %v", b.ups)
	}
	for id, h := range b.core.held.of {
		_, runs := b.running[id]
		if over := h.status.State == taskstate.Rejected && h.status.Reason == taskstate.ReasonInterrupted; over == runs {
			t.Errorf("%v runs: %v, and is said to be %v %v", id, runs, h.status.State, h.status.Reason)
		}
	}
	if _, acked := b.core.Quiet(); acked {
		t.Fatal("gone before the coordinator knows what it has to give to others")
	}
	b.down(session.Down{Released: &session.Released{}})
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.settle()
	if _, acked := b.core.Quiet(); !acked {
		t.Fatal("it waits for what runs")
	}
}
