package quorum_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
)

// emptyLog empties the newest file of a stopped peer's log.
func (fl *cluster) emptyLog(id string) {
	fl.t.Helper()
	files, err := filepath.Glob(filepath.Join(fl.dir, id+"1", "raft-1", "*.wal"))
	if err != nil || len(files) == 0 {
		fl.t.Fatal(files, err)
	}
	hurts["empty"](fl.t, files[len(files)-1])
}

// down ends a peer as a crash does, and tells the others.
func (fl *cluster) down(ids ...string) {
	for _, id := range ids {
		fl.kill(id)
		fl.see(id, "1", false)
	}
}

// up starts peers again from their folders.
func (fl *cluster) up(ids ...string) {
	for _, id := range ids {
		fl.run(fl.start(id, "1"))
		fl.see(id, "1", true)
	}
}

// whole tells whether three voters vote, and which seat one of them has.
func (fl *cluster) whole(id, inc string) func() bool {
	return func() bool {
		l := fl.leader()
		if l == nil {
			return false
		}
		vs := l.Voters()
		return len(vs) == 3 && slices.ContainsFunc(vs, func(v quorum.Voter) bool { return v.Peer == id && string(v.Incarnation) == inc && v.Voting })
	}
}

func TestAVoterThatLostItsLogGivesNoVoteForWhatItAcknowledged(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.down("b")
		fl.insist(job(1)) // on the disks of a and c
		fl.down("a", "c")
		fl.emptyLog("c")
		fl.up("b", "c")
		time.Sleep(time.Minute)
		if l := fl.leader(); l != nil {
			t.Fatalf("%s leads without the only disk that has what was decided", l.id)
		}
		if l := fl.nodes["c"].Lost(); l == nil || l.Server != "c/1" {
			t.Errorf("c says that it lost %+v", l)
		}
		fl.up("a")
		fl.await("a leads, and c votes with another seat", fl.whole("c", "1.2"))
		fl.settle()
		for id, b := range fl.nodes {
			if !has(b, 1) {
				t.Errorf("%s does not have the job", id)
			}
		}
		fl.await("the loss is made good", func() bool { return fl.nodes["c"].Lost() == nil })
	})
}

func TestALostLogIsMadeGoodByTheOthersWithoutAPerson(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		fl.down("c")
		fl.emptyLog("c")
		fl.insist(job(2))
		fl.up("c")
		t.Log("seated anew after", fl.await("c votes with another seat", fl.whole("c", "1.2")))
		fl.down("a")
		fl.insist(job(3))
		fl.settle()
		if c := fl.nodes["c"]; !has(c, 1) || !has(c, 2) || !has(c, 3) {
			t.Error("jobs are missing from the log that was made good")
		}
		fl.down("c")
		fl.up("a")
		fl.up("c") // its new seat is on disk
		fl.settle()
		if inc := fl.nodes["c"].SeatIncarnation(); inc != "1.2" {
			t.Errorf("its seat became %s by a restart", inc)
		}
	})
}

func TestASeatThatIsFoundUnsoundStopsAtOnceAndIsTakenAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		old := fl.leader()
		old.FindUnsound("entry 7 cannot be read")
		fl.await("it leads no more", func() bool { l := fl.leader(); return l != nil && l != old })
		fl.await("it has another seat", fl.whole(old.id, "1.2"))
		fl.insist(job(2))
		fl.settle()
		if !has(old, 1) || !has(old, 2) {
			t.Error("jobs are gone")
		}
	})
}

func TestALoneVoterThatIsUnsoundLeadsNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a")
		fl.insist(job(1))
		a := fl.leader()
		a.FindUnsound("entry 7 cannot be read")
		fl.await("it leads no more", func() bool { _, _, ok := a.Coordinator(); return fl.leader() == nil && !ok })
		fl.await("the seat is given up", func() bool { return !a.HasSeat() })
		if err := patiently(a, job(2)); err == nil {
			t.Error("it decided something")
		}
		if l := a.Lost(); l == nil || l.Why != "entry 7 cannot be read" || !has(a, 1) {
			t.Errorf("it says that it lost %+v", l)
		}
		if got := a.Missing(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("missing are %v, want the seat that was lost", got)
		}
	})
}

func TestALogIsUsedWhenOnlyTheMemoIsGoneOrDamaged(t *testing.T) {
	gone := os.Remove
	damaged := func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b[len(b)/2] ^= 4
		return os.WriteFile(path, b, 0o600)
	}
	for _, c := range []struct {
		hurt func(memo string) error
		mark bool
	}{{gone, true}, {gone, false}, {damaged, true}, {damaged, false}} {
		inBubble(t, func(t *testing.T, fl *cluster) {
			fl.grow(3, "a", "b", "c")
			fl.insist(job(1))
			time.Sleep(time.Second) // two of three logs are enough for a job; now each says whose it is
			for _, id := range []string{"a", "b", "c"} {
				fl.stop(id)
				if err := c.hurt(filepath.Join(fl.dir, id+"1", "memo")); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(filepath.Join(fl.dir, id+"1", "mark")); !c.mark && err != nil { // as a folder of 0.1
					t.Fatal(err)
				}
			}
			fl.up("a", "b", "c")
			fl.insist(job(2))
			fl.settle()
			for id, b := range fl.nodes {
				if b.Lost() != nil || b.SeatIncarnation() != "1" || !has(b, 1) {
					t.Errorf("%s: seat %s, lost %+v", id, b.SeatIncarnation(), b.Lost())
				}
			}
		})
	}
}

// turnBack gives a stopped peer's folder back what it held when keep was called.
func (fl *cluster) keep(id string) (turnBack func()) {
	fl.t.Helper()
	dir, old, was := filepath.Join(fl.dir, id+"1"), filepath.Join(fl.t.TempDir(), "old"), fl.root(id).copy()
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
		fl.t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(old))); err != nil {
			fl.t.Fatal(err)
		}
		fl.root(id).putBack(was)
	}
}

func TestAVoterWhoseWholeFolderWasTurnedBackIsSeatedAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.down("c")
		back := fl.keep("c")
		fl.up("c")
		fl.settle()
		fl.insist(job(1))
		fl.settle()
		time.Sleep(time.Minute)
		fl.down("c", "b") // b has c's word for what it acknowledged
		back()
		fl.down("a")
		fl.up("b", "c")
		fl.await("c gives up its seat", func() bool { return fl.nodes["c"].Lost() != nil })
		if l := fl.nodes["c"].Lost(); l.Server != "c/1" || l.Held <= l.Left {
			t.Errorf("c says that it lost %+v", l)
		}
		fl.up("a")
		fl.await("c votes with another seat", fl.whole("c", "1.2"))
		fl.settle()
		if !has(fl.nodes["c"], 1) {
			t.Error("the job is gone")
		}
	})
}

// alone grows a cluster in which a votes alone and b follows, with a job. The result turns a's
// folder back to how it is then, while a is down.
func (fl *cluster) alone() (back func()) {
	fl.t.Helper()
	fl.grow(1, "a", "b")
	fl.insist(job(1))
	fl.settle()
	fl.down("a")
	back = fl.keep("a")
	fl.up("a")
	return back
}

func TestALoneVoterThatWasTurnedBackDoesNotLeadAFollowerThatKnowsBetter(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		back := fl.alone()
		fl.insist(job(2))
		fl.settle()
		time.Sleep(time.Minute) // b has a's word
		fl.down("a")
		back()
		fl.up("a")
		fl.await("a gives up its seat", func() bool { return fl.nodes["a"].Lost() != nil })
		time.Sleep(time.Minute)
		if l := fl.leader(); l != nil {
			t.Errorf("%s leads, and has lost a decision", l.id)
		}
		b := fl.nodes["b"]
		if !has(b, 2) {
			t.Error("the follower gave up what it had")
		}
		if l := b.Losses(); len(l) != 1 || l[0].Server != "a/1" {
			t.Errorf("the follower says that these lost something: %+v", l)
		}
		if at := b.Marked(1); at < b.Replica().Applied() {
			t.Errorf("it knows of entry %d, and has %d", at, b.Replica().Applied())
		}
		c, err := b.Copy()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Recover(t.Context(), "", c); err != nil {
			t.Fatal(err)
		}
		fl.await("it leads", func() bool { return fl.leader() == b })
	})
}

func TestAFollowerKnowsWithinAMomentHowFarALoneVoterHadAcknowledged(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		back := fl.alone()
		fl.settle()
		for i := range 20 { // while entries come, it hears no less
			fl.insist(job(2 + i))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
		if at, b := fl.nodes["b"].Marked(1), fl.nodes["b"].Replica().Applied(); at < b {
			t.Errorf("b has entry %d, and the voter's word for entry %d", b, at)
		}
		fl.down("a")
		back()
		fl.up("a")
		fl.await("a gives up its seat", func() bool { return fl.nodes["a"].Lost() != nil })
	})
}

func TestALeaderThatHasLessThanAFollowerSaysSoAndSoDoesTheFollowerUntilItIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		back := fl.alone()
		for i := range 10 {
			fl.insist(job(2 + i))
		}
		fl.settle()
		fl.down("b", "a")
		back()
		if err := os.Remove(filepath.Join(fl.dir, "b1", "marks")); err != nil { // b cannot prove what it knows
			t.Fatal(err)
		}
		fl.up("a", "b")
		a, b := fl.nodes["a"], fl.nodes["b"]
		fl.await("both say so", func() bool { return a.Differs(asIs) != "" && b.Differs(asIs) != "" })
		for _, want := range []string{"b says", "`peer recover` there"} {
			if got := a.Differs(asIs); !strings.Contains(got, want) {
				t.Errorf("the leader says %q, want %q in it", got, want)
			}
		}
		for _, want := range []string{"of the coordinator, a,", "`peer recover` here"} {
			if got := b.Differs(asIs); !strings.Contains(got, want) {
				t.Errorf("the follower says %q, want %q in it", got, want)
			}
		}
		time.Sleep(5 * time.Minute)
		if a.Differs(asIs) == "" || b.Differs(asIs) == "" || !has(b, 11) || has(a, 11) {
			t.Errorf("later the leader says %q, the follower %q", a.Differs(asIs), b.Differs(asIs))
		}
		fl.down("b")
		time.Sleep(time.Minute)
		if got := a.Differs(asIs); got != "" {
			t.Errorf("without the follower the leader says %q", got)
		}
		fl.down("a")
		fl.up("b")
		b = fl.nodes["b"]
		c, err := b.Copy()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Recover(t.Context(), "", c); err != nil {
			t.Fatal(err)
		}
		fl.await("it leads", func() bool { return fl.leader() == b })
		if got := b.Differs(asIs); got != "" || !has(b, 11) {
			t.Errorf("it goes on from its copy, and says %q", got)
		}
	})
}

func TestWhoLostALogSaysUpToWhichEntryItHadAcknowledged(t *testing.T) {
	for what, hurt := range map[string]func(t *testing.T, seat string) error{
		"its folder is gone": func(_ *testing.T, seat string) error { return os.RemoveAll(seat) },
		"it cannot be opened": func(_ *testing.T, seat string) error {
			return os.WriteFile(filepath.Join(seat, "wal-meta.db"), []byte("garbage"), 0o600)
		},
		"an entry is rotten": func(t *testing.T, seat string) error {
			files, err := filepath.Glob(filepath.Join(seat, "*.wal"))
			if err == nil {
				rewritten(func(b []byte) []byte { b[400] ^= 4; return b })(t, files[0])
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *cluster) {
				fl.grow(3, "a", "b", "c")
				for i := range 20 {
					fl.insist(job(i + 1))
				}
				fl.settle()
				had := fl.nodes["a"].Replica().Applied()
				fl.down("a")
				fl.insist(job(21))
				fl.settle() // c has what b has
				fl.down("b", "c")
				for _, id := range []string{"a", "b"} {
					if err := hurt(t, filepath.Join(fl.dir, id+"1", "raft-1")); err != nil {
						t.Fatal(err)
					}
				}
				fl.up("a", "b", "c")
				c := fl.nodes["c"]
				fl.await("c knows of both", func() bool { return len(c.Losses()) == 2 })
				for _, l := range c.Losses() {
					if l.Held < had || l.Left >= had {
						t.Errorf("%s says that it had acknowledged entry %d and has %d, want at least %d", l.Server, l.Held, l.Left, had)
					}
				}
				best, err := c.Copy()
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range c.Losses() {
					for id, b := range fl.nodes {
						fl.await(id+" knows that c's copy has it all", func() bool { return b.Covers(best, l) })
					}
					older := best
					older.Seat, older.Index = "", l.Held-1
					if c.Covers(older, l) {
						t.Errorf("a copy that ends at entry %d is said to have what %s had acknowledged", older.Index, l.Server)
					}
				}
			})
		})
	}
}

// Nobody votes for it, so that it stands for election for ever.
func TestWhoStandsForElectionHearsOfLossesOfThoseThatComeLater(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		for i := range 20 {
			fl.insist(job(i + 1))
		}
		fl.settle()
		fl.down("a", "b", "c")
		for _, id := range []string{"a", "b"} {
			if err := os.RemoveAll(filepath.Join(fl.dir, id+"1", "raft-1")); err != nil {
				t.Fatal(err)
			}
		}
		fl.up("c")
		time.Sleep(time.Minute)
		fl.up("a")
		time.Sleep(time.Minute)
		fl.up("b")
		c := fl.nodes["c"]
		fl.await("c knows of both", func() bool { return len(c.Losses()) == 2 })
	})
}
