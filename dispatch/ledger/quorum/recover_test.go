package quorum_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// recoverAt recovers at a peer from the newest copy among those that run.
func (fl *cluster) recoverAt(id string) {
	fl.t.Helper()
	b := fl.nodes[id]
	best, from := quorum.Copy{}, ""
	for other := range fl.nodes {
		c, err := b.AskCopy(context.Background(), other)
		if other == id {
			c, err = b.Copy()
		}
		if err != nil {
			fl.t.Fatal(err)
		}
		if d := c.Compare(best); d > 0 || d == 0 && other == id {
			best, from = c, other
		}
	}
	if _, err := b.Recover(context.Background(), from, best); err != nil {
		fl.t.Fatalf("recover at %s from %s: %v", id, from, err)
	}
}

func (fl *cluster) die(ids ...string) {
	for _, id := range ids {
		fl.kill(id)
		fl.see(id, "1", false)
	}
}

func TestASurvivorRecoversTheLedgerAndTheOthersFollow(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		fl.insist(job(1))
		fl.settle()
		fl.die("a", "b")
		time.Sleep(time.Minute)
		if fl.leader() != nil {
			t.Fatal("somebody leads without a majority")
		}
		fl.recoverAt("c")
		t.Log("leads after", fl.await("c leads", func() bool { l := fl.leader(); return l != nil && l.id == "c" }))
		if g := fl.nodes["c"].Generation(); g != 2 {
			t.Errorf("generation %d, want 2", g)
		}
		fl.insist(job(2))
		fl.nodes["d"].Hint("c", fl.leader().now)
		t.Log("d follows after", fl.settle())
		for _, id := range []string{"c", "d"} {
			if !has(fl.nodes[id], 1) || !has(fl.nodes[id], 2) {
				t.Errorf("%s lacks a job", id)
			}
		}
		aside, _ := filepath.Glob(filepath.Join(fl.dir, "c1", "set-aside", "generation-1-*", "raft-1"))
		if len(aside) != 1 {
			t.Errorf("the old log was not kept: %v", aside)
		}
	})
}

func TestOldVotersThatReturnSetTheirLedgerAsideAndFollow(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		fl.settle()
		fl.die("a", "b")
		time.Sleep(time.Minute)
		fl.recoverAt("c")
		fl.insist(job(2))
		// The two are a majority of the old voters, and may decide until they meet the new
		// generation.
		for _, id := range []string{"a", "b"} {
			fl.run(fl.start(id, "1"))
			fl.see(id, "1", true)
		}
		fl.await("three voters of generation 2", func() bool {
			l := fl.leader()
			return l != nil && l.now.Generation == 2 && len(fl.voting()) == 3
		})
		fl.settle()
		for id, b := range fl.nodes {
			if !has(b, 2) || b.Generation() != 2 {
				t.Errorf("%s: generation %d, has job 2: %v", id, b.Generation(), has(b, 2))
			}
		}
		fl.die(fl.leader().id)
		fl.insist(job(3))
	})
}

func TestACoordinatorGivesUpALedgerThatWasRecoveredElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.settle()
		alone := "a"
		if fl.leader().id == alone {
			alone = "b"
		}
		others := slices.DeleteFunc([]string{"a", "b", "c"}, func(id string) bool { return id == alone })
		for _, id := range others {
			fl.net.Cut(alone, id)
		}
		fl.await("cut off", func() bool { _, _, ok := fl.nodes[alone].Coordinator(); return !ok })
		old := fl.leader()
		c, err := fl.nodes[alone].Copy()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fl.nodes[alone].Recover(t.Context(), "", c); err != nil {
			t.Fatal(err)
		}
		fl.await("it leads", func() bool { return fl.leader().id == alone })
		fl.insist(job(1))
		fl.net.Heal()
		old.Hint(alone, fl.leader().now)
		t.Log("all follow after", fl.settle())
		for id, b := range fl.nodes {
			if !has(b, 1) || b.Generation() != 2 {
				t.Errorf("%s: generation %d", id, b.Generation())
			}
		}
	})
}

func TestTheNewestCopyIsFetchedFromWhereverItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		fl.insist(job(1))
		fl.settle()
		fl.stop("b") // its copy stays behind
		fl.see("b", "1", false)
		fl.insist(job(2))
		fl.see("c", "1", true)
		fl.propose(fl.leader(), letIn("c"))
		fl.run(fl.start("c", "1", "a"))
		fl.settle()
		fl.die("a")
		b := fl.run(fl.start("b", "1"))
		fl.see("b", "1", true)
		mine, err := b.Copy()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := b.AskCopy(t.Context(), "c")
		if err != nil || theirs.Compare(mine) <= 0 {
			t.Fatalf("c has %+v (%v), b %+v", theirs, err, mine)
		}
		if _, err := b.Recover(t.Context(), "", theirs); !errors.Is(err, quorum.ErrOlderCopy) {
			t.Errorf("recovering from an older copy than was agreed on: %v", err)
		}
		fl.recoverAt("b")
		fl.insist(job(3))
		fl.nodes["c"].Hint("b", fl.leader().now)
		fl.settle()
		for id, n := range fl.nodes {
			if !has(n, 1) || !has(n, 2) || !has(n, 3) {
				t.Errorf("%s lacks a job", id)
			}
		}
	})
}

func TestNothingIsRecoveredWhileSomebodyCoordinates(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		for id, b := range fl.nodes {
			if _, err := b.Recover(t.Context(), "", quorum.Copy{}); !errors.Is(err, quorum.ErrQuorum) {
				t.Errorf("%s: %v", id, err)
			}
			if b.Generation() != 1 {
				t.Errorf("%s is in generation %d", id, b.Generation())
			}
		}
		fl.insist(job(1))
	})
}

func TestWhatALogHoldsBeyondWhatIsKnownToBeDecidedSurvives(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		time.Sleep(time.Second)                      // the third disk is not waited for
		for _, id := range []string{"a", "b", "c"} { // as a power cut: the copy of what was applied is not saved
			fl.kill(id)
			fl.see(id, "1", false)
		}
		if err := os.Remove(filepath.Join(fl.dir, "c1", "copy")); err != nil {
			t.Fatal(err)
		}
		c := fl.run(fl.start("c", "1"))
		fl.see("c", "1", true)
		time.Sleep(10 * time.Second)
		if has(c, 1) {
			t.Log("c knows the job without a quorum") // raft does not say what is decided, so it is not expected to
		}
		fl.recoverAt("c")
		fl.await("c leads", func() bool { return fl.leader() != nil })
		if !has(c, 1) {
			t.Error("an acknowledged job, on the disk of the survivor, is lost")
		}
	})
}

func TestTheRecoveredLedgerSurvivesARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		fl.settle()
		fl.die("a", "b")
		time.Sleep(time.Minute) // c may have been elected between the two deaths, and finds out what it lost
		fl.recoverAt("c")
		fl.insist(job(2))
		for range 2 {
			fl.kill("c")
			fl.run(fl.start("c", "1"))
			fl.await("c leads again", func() bool { return fl.leader() != nil })
		}
		c := fl.nodes["c"]
		if !has(c, 1) || !has(c, 2) || c.Generation() != 2 {
			t.Errorf("generation %d, jobs %v %v", c.Generation(), has(c, 1), has(c, 2))
		}
		fl.kill("c")
		fl.run(fl.start("c", "1"))
		fl.await("c leads", func() bool { return fl.leader() != nil })
	})
}

func TestAHigherGenerationFromAPeerThatMayNotVoteIsNotFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		m := fl.start("mallory", "1")
		f := founding("mallory")
		f.Generation = 9
		if err := m.Found(context.Background(), f); err != nil {
			t.Fatal(err)
		}
		fl.run(m)
		for range 3 {
			m.Follow([]string{"a", "b"}) // it says hello with its generation
			fl.nodes["b"].Hint("mallory", taskstate.At(9, 9))
			time.Sleep(time.Second)
		}
		for _, id := range []string{"a", "b"} {
			if g := fl.nodes[id].Generation(); g != 1 {
				t.Errorf("%s is in generation %d", id, g)
			}
		}
		fl.propose(fl.nodes["a"], job(1))
	})
}

func TestAPeerThatWasAwayWhileAllVotersWereReplacedFollowsTheNewOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "d")
		fl.stop("d")
		fl.see("d", "1", false)
		for _, id := range []string{"b", "c"} {
			fl.propose(fl.leader(), letIn(id))
			fl.run(fl.start(id, "1", "a"))
			fl.see(id, "1", true)
		}
		fl.await("three voters", func() bool { return len(fl.voting()) == 3 })
		if err := fl.nodes["a"].Handover(context.Background()); err != nil {
			t.Fatal(err)
		}
		fl.die("a")
		fl.await("b and c decide", func() bool { l := fl.leader(); return l != nil && l.id != "a" })
		fl.insist(job(1))
		fl.mayVote = func(id string) bool { return id == "b" || id == "c" } // what the roster learns from their entries
		d := fl.run(fl.start("d", "1"))
		fl.see("d", "1", true)
		d.Hint(fl.leader().id, fl.leader().now)
		t.Log("current after", fl.settle())
		if !has(d, 1) {
			t.Error("d lacks what was decided meanwhile")
		}
	})
}

func TestOfTwoPeersTheVoterGoesOnAloneAndTheOtherSaysWhomItWaitsFor(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		fl.die("b")
		fl.insist(job(1))
		time.Sleep(time.Hour)
		fl.insist(job(2))
		b := fl.run(fl.start("b", "1"))
		fl.see("b", "1", true)
		fl.settle()
		fl.die("a")
		fl.await("b notices", func() bool { _, _, ok := b.Coordinator(); return !ok })
		if got := b.Missing(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("b waits for %v, want a", got)
		}
	})
}

// letIn lets a peer into the roster, with all roles.
func letIn(id string) ledger.Command {
	return ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "clusterclusterclu", Peer: id, Roles: admission.AllRoles(), By: "a"}}}
}

// beginAgain applies the first entry of the next generation to a state.
func beginAgain(t *testing.T, s *ledger.State) {
	t.Helper()
	f := founding("a")
	f.Cluster, f.Generation = s.Cluster(), s.Generation()+1
	e := ledger.Entry{Index: s.Index() + 1<<20, Epoch: taskstate.At(f.Generation, 1), By: "a", Commands: []ledger.Command{{Found: &f}}}
	if r := s.Apply(e); r[0].Refused != "" {
		t.Fatal(r)
	}
}

func TestARecoveredStateGivesNoAttemptASecondTime(t *testing.T) {
	s := ledger.NewState()
	index := uint64(0)
	apply := func(gen uint64, cmds ...ledger.Command) {
		t.Helper()
		index = max(index, s.Index()) + 1
		for _, r := range s.Apply(ledger.Entry{Index: index, Epoch: taskstate.At(gen, 1), By: "a", Commands: cmds}) {
			if r.Refused != "" {
				t.Fatal(r)
			}
		}
	}
	f := founding("a")
	big := job(1)
	big.Submit.Job.Count = 5
	id := big.Submit.Job.ID
	give := func(first, n, attempt int) ledger.Command {
		return ledger.Command{Assign: &ledger.Assign{Job: id, Peer: "a", Incarnation: "1", Slots: []ledger.Slots{{First: first, N: n, Attempt: attempt}}}}
	}
	again := func(slot, attempt int) ledger.Command {
		return ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(id, slot, attempt), Reason: taskstate.ReasonUnreachable, Again: true}}
	}
	apply(1, ledger.Command{Found: &f}, ledger.Command{Register: &ledger.Register{Peer: "a", Incarnation: "1"}}, big, job(2))
	apply(1, give(1, 3, 1))
	apply(1, again(2, 1))
	beginAgain(t, s)
	if s.Generation() != 2 || s.Began() != s.Index() {
		t.Fatalf("generation %d began at %d, index %d", s.Generation(), s.Began(), s.Index())
	}
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if s, err = ledger.DecodeState(b); err != nil {
		t.Fatal(err)
	}
	if c, _ := s.Encode(); string(b) != string(c) {
		t.Error("a recovered state does not survive its encoding")
	}
	j, _ := s.Job(id)
	want := []ledger.Slots{{First: 2, N: 1, Attempt: 1001}, {First: 4, N: 2, Attempt: 1001}}
	var got []ledger.Slots
	for a := range j.Waiting() {
		got = append(got, a.Slots)
	}
	if !slices.Equal(got, want) {
		t.Errorf("waiting: %v, want %v", got, want)
	}
	if r := j.Slot(1); !r.Open || r.Attempt != 1 {
		t.Errorf("what runs goes on as it is: %+v", r)
	}
	// A status of an assignment that was lost is of a task this ledger does not know, and never
	// will.
	if _, _, _, st := s.Assigned(taskstate.Task(id, 4, 1)); st != taskstate.Retired {
		t.Errorf("a lost attempt is %v, want retired", st)
	}
	apply(2, again(1, 1), give(2, 1, 1001))
	if r := j.Slot(1); r.Attempt != 1001 {
		t.Errorf("the attempt after a running one is %d, want 1001", r.Attempt)
	}
	beginAgain(t, s)
	if r := j.Slot(4); r.Attempt != 2001 {
		t.Errorf("after the second recovery a slot waits for attempt %d, want 2001", r.Attempt)
	}
	fresh, repeated := job(3), job(4)
	repeated.Submit.Again = true
	apply(3, fresh, repeated)
	for c, first := range map[*ledger.Submit]int{fresh.Submit: 1, repeated.Submit: 2001} {
		if j, _ := s.Job(c.Job.ID); j.Slot(1).Attempt != first {
			t.Errorf("job %s begins with attempt %d, want %d", c.Job.ID, j.Slot(1).Attempt, first)
		}
	}
}
