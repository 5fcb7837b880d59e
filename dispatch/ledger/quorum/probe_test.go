package quorum_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// cutOff separates one peer from all others.
func (fl *cluster) cutOff(id string) {
	for other := range fl.nodes {
		if other != id {
			fl.net.Cut(id, other)
		}
	}
}

// epoch is the newest that somebody leads in.
func (fl *cluster) epoch() taskstate.Epoch {
	l := fl.leader()
	if l == nil {
		return taskstate.Epoch{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func TestADeadCoordinatorIsReplacedAsSoonAsItsStreamsBreak(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		for round := range 10 {
			time.Sleep(time.Duration(round) * 77 * time.Millisecond) // anywhere between two heartbeats
			old := fl.leader()
			fl.kill(old.id)
			took := fl.await("another coordinator", func() bool { return fl.leader() != nil })
			t.Logf("round %d: %v", round, took)
			if took > 300*time.Millisecond {
				t.Errorf("round %d: a new coordinator took %v, though dials to the old one are refused", round, took)
			}
			fl.run(fl.start(old.id, "1"))
			fl.settle()
		}
	})
}

func TestASilentCoordinatorIsReplacedHalfASecondAfterSomebodyNeedsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		for round := range 10 {
			time.Sleep(time.Duration(round) * 77 * time.Millisecond)
			old := fl.leader()
			fl.cutOff(old.id)
			for id, b := range fl.nodes {
				if (round%2 == 0) == (id == "d") && b != old { // who waits has a vote, or has none
					b.SuspectLeader()
				}
			}
			took := fl.await("another coordinator", func() bool { return fl.leader() != old })
			t.Logf("round %d: %v", round, took)
			if took > 600*time.Millisecond {
				t.Errorf("round %d: a new coordinator took %v", round, took)
			}
			fl.net.Heal()
			fl.settle()
		}
	})
}

func TestASilentCoordinatorThatNobodyNeedsIsReplacedAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		time.Sleep(10 * time.Second)
		old := fl.leader()
		fl.cutOff(old.id)
		took := fl.await("another coordinator", func() bool { l := fl.leader(); return l != nil && l != old })
		t.Log(took)
		// By raft's timers alone, three times its patience of 3.75 s at most, and an election; in a
		// whole peer, membership has its doubts in about a second.
		if took > 11500*time.Millisecond {
			t.Errorf("a new coordinator took %v", took)
		}
	})
}

func TestDoubtsAboutACoordinatorThatLivesChangeNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		before := fl.epoch()
		for range 300 {
			for _, b := range fl.nodes {
				b.SuspectLeader()
			}
			time.Sleep(33 * time.Millisecond)
			if now := fl.epoch(); now != before {
				t.Fatalf("the coordinator changed: %v before, %v now", before, now)
			}
		}
	})
}

func TestOneBrokenLinkDeposesNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		l := fl.leader()
		before := fl.epoch()
		cut := "a"
		if l.id == cut {
			cut = "b"
		}
		fl.net.Cut(l.id, cut)
		for range 300 {
			fl.nodes[cut].SuspectLeader()
			time.Sleep(33 * time.Millisecond)
			if now := fl.epoch(); now != before {
				t.Fatalf("the coordinator changed: %v before, %v now", before, now)
			}
		}
	})
}
