package quorum_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

func TestAFollowerResumesWhereItStoppedWithoutASnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		fl.insist(job(1))
		fl.settle()
		fl.stop("b")
		fl.insist(job(2))
		b := fl.run(fl.start("b", "1"))
		if !has(b, 1) {
			t.Error("the copy on disk does not have what was known before")
		}
		fl.settle()
		if !has(b, 2) || b.SnapshotsTaken() != 0 {
			t.Errorf("job 2 known: %v; snapshots taken: %d, want none", has(b, 2), b.SnapshotsTaken())
		}
	})
}

func TestAFollowerThatWasAwayTooLongGetsASnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.ring = 4 << 10
		fl.grow(1, "a", "b")
		fl.stop("b")
		for i := range 100 {
			fl.insist(job(i + 1))
		}
		b := fl.run(fl.start("b", "1"))
		fl.settle()
		if !has(b, 1) || !has(b, 100) || b.SnapshotsTaken() != 1 {
			t.Errorf("jobs known: %v %v; snapshots taken: %d, want 1", has(b, 1), has(b, 100), b.SnapshotsTaken())
		}
	})
}

func TestALargeDecisionReachesFollowersInParts(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		c := job(1)
		c.Submit.Job.Count = 40_000
		for range c.Submit.Job.Count {
			c.Submit.Job.Each = append(c.Submit.Job.Each, "an item of about fifty bytes, so that two MiB gather")
		}
		fl.insist(c)
		fl.settle()
		if !has(fl.nodes["b"], 1) {
			t.Error("b does not have it")
		}
	})
}

func TestAFollowerKnowsThatItIsNotCurrent(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		b := fl.nodes["b"]
		fl.kill("a")
		fl.see("a", "1", false)
		time.Sleep(time.Second)
		if ok, at := b.InSync(); ok || at.IsZero() {
			t.Errorf("in sync: %v, last at %v", ok, at)
		}
		if _, _, ok := b.Coordinator(); ok {
			t.Error("b believes that somebody coordinates")
		}
		if got := b.Missing(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("missing %v, want a", got)
		}
		_, _, err := b.Propose(t.Context(), []ledger.Command{job(1)})
		if _, ok := err.(ledger.ErrNotCoordinator); !ok {
			t.Errorf("proposing here: %v", err)
		}
		fl.run(fl.start("a", "1"))
		t.Log("current again after", fl.settle())
	})
}

func TestASilentCoordinatorIsLeftForTheOneGossipNames(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		old := fl.leader()
		d := fl.nodes["d"]
		for _, id := range []string{"a", "b", "c", "d"} { // nothing is refused or reset, as when a machine loses its power
			if id != old.id {
				fl.net.Cut(old.id, id)
			}
		}
		fl.await("another coordinator", func() bool { l := fl.leader(); return l != nil && l != old })
		fl.await("the old one steps down", func() bool { old.mu.Lock(); defer old.mu.Unlock(); return old.now.IsZero() })
		now := fl.leader()
		d.Hint(now.id, now.now)
		took := fl.await("d follows the new one", func() bool { c, e, _ := d.Coordinator(); return c == now.id && e == now.now })
		if took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		d.Hint("mallory", taskstate.At(9, 9))
		time.Sleep(5 * time.Second)
		if c, _, _ := d.Coordinator(); c != now.id {
			t.Errorf("a rumour alone made %q coordinator", c)
		}
		fl.net.Heal()
		t.Log("the old one is back in sync after", fl.settle())
	})
}

// A stream that is opened to a machine that is gone, over a connection that nobody has found broken
// yet, is no refusal: it is silent.
func TestAFollowerDoesNotWaitLongForAVoterThatIsNotThereAnyMore(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		d, old := fl.nodes["d"], fl.leader()
		fl.await("d is current", func() bool { ok, _ := d.InSync(); return ok })
		time.Sleep(3 * time.Second)
		fl.net.Cut(old.id, "d")
		fl.await("d notices", func() bool { ok, _ := d.InSync(); return !ok })
		took := fl.await("d follows another voter", func() bool { ok, _ := d.InSync(); return ok })
		if took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestChangedTellsOfEveryNewCoordinator(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		d := fl.nodes["d"]
		_, before, _ := d.Coordinator()
		heard := make(chan taskstate.Epoch)
		go func() {
			for {
				wait := d.Changed()
				if _, e, ok := d.Coordinator(); ok && before.Less(e) {
					heard <- e
					return
				}
				<-wait
			}
		}()
		fl.kill(fl.leader().id)
		if e := <-heard; !before.Less(e) {
			t.Errorf("from %v to %v", before, e)
		}
	})
}

func TestAPeerThatFollowsAgainAndAgainAndNeverReadsLeavesRoomForTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		for range 300 {
			c, err := fl.net.Host("greedy").Dial(t.Context(), "a", quorum.FollowProtocol)
			if err != nil {
				t.Fatal(err)
			}
			if err := wire.NewWriter(c, 0).Send(struct{}{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		fl.stop("b")
		for i := range 20 {
			fl.insist(job(i + 1))
		}
		b := fl.run(fl.start("b", "1"))
		fl.settle()
		if !has(b, 20) {
			t.Error("b does not follow")
		}
	})
}
