package quorum_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
)

func TestWhoComesBackWithAnotherDiskInheritsNoVote(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		fl.kill("c")
		fl.see("c", "1", false)
		time.Sleep(time.Second)
		fl.run(fl.start("c", "2", "a"))
		fl.see("c", "2", true)
		fl.await("the new life of c votes, the old one does not", func() bool {
			l := fl.leader()
			if l == nil {
				return false
			}
			vs := l.Voters()
			return len(vs) == 3 && slices.Contains(vs, quorum.Voter{Peer: "c", Incarnation: "2", Voting: true})
		})
		fl.settle()
		fl.kill("a")
		fl.insist(job(2))
		fl.settle()
		if c := fl.nodes["c"]; !has(c, 1) || !has(c, 2) {
			t.Error("c lacks a decision")
		}
	})
}

func TestWhoHasHeardNothingFromTheCoordinatorGetsNoVote(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.found("a", "b", "c")
		for _, id := range []string{"b", "c"} {
			fl.run(fl.start(id, "1", "a"))
		}
		fl.net.Host("c").Handle(quorum.RaftProtocol, func(_ string, c net.Conn) { _ = c.Close() }) // it takes a seat, and no log
		for _, id := range []string{"b", "c"} {
			fl.see(id, "1", true)
		}
		fl.await("both sit down", func() bool { return len(fl.leader().Voters()) == 3 })
		time.Sleep(10 * time.Second)
		if got := fl.voting(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%v vote, though one of them knows nothing", got)
		}
		fl.propose(fl.leader(), job(1))
	})
}

func TestADeadVoterIsReplacedAfterThirtySeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		dead := "b"
		fl.kill(dead)
		fl.see(dead, "1", false)
		time.Sleep(25 * time.Second)
		if !slices.Contains(fl.voting(), dead) {
			t.Fatal("replaced too early")
		}
		took := fl.await("d votes instead", func() bool { return slices.Equal(fl.voting(), []string{"a", "c", "d"}) })
		t.Log("replaced", 25*time.Second+took, "after the verdict")
		b := fl.run(fl.start(dead, "1"))
		fl.see(dead, "1", true)
		fl.await("b gave up its seat", func() bool { return !b.HasSeat() })
		t.Log("b follows after", fl.settle())
	})
}

func TestThreePeersSwitchedOffOneByOneLeaveTheTruthWithTheLast(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for i := range 2 {
			l := fl.leader() // the hardest to let go
			begin := time.Now()
			if err := l.Handover(ctx); err != nil {
				t.Fatalf("handover of %s: %v", l.id, err)
			}
			t.Log("handed over in", time.Since(begin), "voters", fl.voting())
			fl.stop(l.id)
			fl.net.Kill(l.id)
			fl.see(l.id, "1", false)
			fl.insist(job(2 + i))
		}
		if got := fl.voting(); len(got) != 1 {
			t.Fatalf("voters %v, want the last one on", got)
		}
		last := fl.leader()
		for i := range 3 {
			if !has(last, i+1) {
				t.Errorf("job %d is lost", i+1)
			}
		}
		time.Sleep(time.Hour)
		for _, id := range []string{"a", "b", "c"} {
			if fl.nodes[id] == nil {
				fl.run(fl.start(id, "1"))
				fl.see(id, "1", true)
			}
		}
		fl.await("three voters again", func() bool { return len(fl.voting()) == 3 })
		fl.settle()
		for id, b := range fl.nodes {
			if !has(b, 3) {
				t.Errorf("%s lacks the last job", id)
			}
		}
	})
}

func TestOfTwoPeersTheOneThatStaysBecomesTheVoter(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		fl.insist(job(1))
		a := fl.nodes["a"]
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begin := time.Now()
		if err := a.Handover(ctx); err != nil {
			t.Fatal(err)
		}
		t.Log("handed over in", time.Since(begin), "voters", fl.voting())
		fl.stop("a")
		fl.see("a", "1", false)
		fl.insist(job(2))
		if got := fl.voting(); !slices.Equal(got, []string{"b"}) {
			t.Fatalf("voters %v, want b", got)
		}
		time.Sleep(time.Minute)
		fl.run(fl.start("a", "1"))
		fl.see("a", "1", true)
		fl.settle()
		if !has(fl.nodes["a"], 2) || !slices.Equal(fl.voting(), []string{"b"}) {
			t.Errorf("a knows job 2: %v; voters %v", has(fl.nodes["a"], 2), fl.voting())
		}
	})
}

func TestALoneVoterHandsOverToNobodyAndSaysNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		a := fl.found("a")
		if err := a.Handover(t.Context()); err != nil {
			t.Fatal(err)
		}
		fl.propose(a, job(1))
	})
}

func TestAVoterIsRemovedUnlessItIsTheOnlyOne(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		ctx := t.Context()
		l := fl.leader()
		if err := fl.nodes["b"].RemoveVoter(ctx, "c"); !errors.As(err, new(ledger.ErrNotCoordinator)) {
			t.Errorf("a voter that does not lead removes: %v", err)
		}
		if err := l.RemoveVoter(ctx, "c"); err != nil {
			t.Fatal(err)
		}
		fl.forget("c")
		fl.await("one voter", func() bool { return slices.Equal(fl.voting(), []string{"a"}) })
		fl.await("c gave up its seat", func() bool { return !fl.nodes["c"].HasSeat() })
		if err := l.RemoveVoter(ctx, "a"); !errors.Is(err, quorum.ErrSoleVoter) {
			t.Errorf("removing the only voter: %v", err)
		}
		fl.insist(job(1))
	})
}

func TestACoordinatorThatIsRemovedHandsOverFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		old := fl.leader()
		fl.await("removed", func() bool {
			l := fl.leader()
			if l == nil {
				return false
			}
			err := l.RemoveVoter(t.Context(), old.id)
			return err == nil
		})
		fl.forget(old.id)
		fl.await("it gave up its seat", func() bool { return !old.HasSeat() && len(fl.voting()) == 1 })
		fl.insist(job(1))
	})
}

func TestFivePeersVoteAndSurviveTwoDeaths(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(5, "a", "b", "c", "d", "e", "f")
		fl.insist(job(1))
		for range 2 {
			l := fl.leader()
			fl.kill(l.id)
			fl.see(l.id, "1", false)
			fl.insist(job(2))
		}
		t.Log("settled after", fl.settle())
		fl.await("f takes one place", func() bool { return slices.Contains(fl.voting(), "f") })
		time.Sleep(11 * time.Minute)
		if got := fl.voting(); len(got) != 3 {
			t.Errorf("after eleven minutes voters are %v, want three", got)
		}
	})
}

func TestAllVotersRestartAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		for i := range 50 {
			fl.insist(job(i + 1))
		}
		fl.settle()
		for _, id := range []string{"a", "b", "c", "d"} {
			fl.kill(id)
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			fl.run(fl.start(id, "1"))
		}
		t.Log("deciding again after", fl.await("a coordinator", func() bool { return fl.leader() != nil }))
		t.Log("all equal after", fl.settle())
		for id, b := range fl.nodes {
			if !has(b, 50) {
				t.Errorf("%s lost the last job", id)
			}
		}
	})
}
