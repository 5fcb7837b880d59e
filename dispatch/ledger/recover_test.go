package ledger_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"covey/dispatch/ledger"
)

// recover_ recovers at a peer from the newest copy among those that run.
func (fl *flock) recoverAt(id string) {
	fl.t.Helper()
	b := fl.nodes[id]
	best, from := ledger.Copy{}, ""
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

func (fl *flock) die(ids ...string) {
	for _, id := range ids {
		fl.kill(id)
		fl.see(id, "1", false)
	}
}

func TestASurvivorRecoversTheLedgerAndTheOthersFollow(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *flock) {
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
		side, _ := filepath.Glob(filepath.Join(fl.dir, "c1", "set-aside", "generation-1-*", "raft-1"))
		if len(side) != 1 {
			t.Errorf("the old log was not kept: %v", side)
		}
	})
}

func TestOldVotersThatReturnSetTheirLedgerAsideAndFollow(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *flock) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		fl.settle()
		fl.die("a", "b")
		time.Sleep(time.Minute)
		fl.recoverAt("c")
		fl.insist(job(2))
		// The two are a majority of the old voters, and may decide until they meet the new generation.
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
	inBubble(t, func(t *testing.T, fl *flock) {
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
