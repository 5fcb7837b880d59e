package worker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

func TestAWorkerWhoseJournalIsOlderThanWhatOthersSawStopsWhatRunsAndSaysNothingMore(t *testing.T) {
	for name, others := range map[string]func(*box){
		"the coordinator has a higher batch": func(b *box) {
			b.open()
			w := welcomeIn(1)
			w.Welcome.Highest = 9
			b.step(Frame{b.stream, &w})
		},
		"the coordinator heard of a task it has not": func(b *box) {
			b.open()
			w := welcomeIn(1)
			w.Welcome.Heard = []session.Grant{{Job: jobWork, Slots: []ledger.Slots{{First: 77, N: 1, Attempt: 1}}}}
			b.step(Frame{b.stream, &w})
		},
		"a peer has a higher batch":    func(b *box) { b.step(Seen{benchLife, 9}) },
		"a peer has a different batch": func(b *box) { b.step(Seen{benchLife, OtherBatch}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.fate = func(taskstate.TaskID) fate { return fateRuns }
			b.session(1, grantOf(jobWork, 1, 1))
			b.settle()
			if len(b.running) != 1 {
				t.Fatalf("%d tasks run", len(b.running))
			}
			b.crash(true)
			said := len(b.published)
			others(b)
			if why, over := b.core.Renounced(); why == "" || over {
				t.Fatalf("lost %q, over %v, while a task of it runs", why, over)
			}
			if len(b.halted) != 1 || !slices.ContainsFunc(b.ended, func(e End) bool { return strings.Contains(e.Why, "new incarnation") }) && b.core.stream.id != 0 {
				t.Fatalf("%d tasks were stopped", len(b.halted))
			}
			b.finish(b.halted[0].Task, taskstate.Shutdown, taskstate.ReasonInterrupted)
			b.now = b.now.Add(time.Minute)
			b.step(nil)
			if _, over := b.core.Renounced(); !over || b.txn != nil || len(b.published) != said {
				t.Fatalf("over %v, writes %v, said %d after %d", over, b.txn != nil, len(b.published), said)
			}
		})
	}
}

// What others have is what the journal has, or less, after any crash: a batch is on disk before it
// is said.
func TestABatchIsOnDiskBeforeAnybodyHearsOfIt(t *testing.T) {
	b := newBox(t)
	b.fate = func(taskstate.TaskID) fate { return fateRuns }
	restarts := 20
	if long.Tests {
		restarts = 200
	}
	for n := 1; n <= restarts; n++ {
		b.session(1, grantOf(jobNoop, n, 1))
		b.runs(wtask(jobNoop, n))
		if n%3 > 0 {
			b.settle()
		}
		b.crash(n%2 == 0)
		b.open()
		w := welcomeIn(1)
		for number, envelope := range b.published {
			if number >= w.Welcome.Highest {
				w.Welcome.Highest, w.Welcome.Sum = number, session.EnvelopeSum(envelope)
			}
		}
		b.step(Frame{b.stream, &w})
		if why, _ := b.core.Renounced(); why != "" {
			t.Fatalf("restart %d is taken for a loss: %s", n, why)
		}
	}
	if len(b.published) < restarts/2 {
		t.Fatalf("only %d batches were said", len(b.published))
	}
}

func TestAnOtherBatchUnderANumberThatWasUsedIsNoticedByTheWelcome(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 1))
	b.runs(wtask(jobNoop, 1))
	b.settle()
	b.crash(true)
	b.open()
	w := welcomeIn(1)
	w.Welcome.Highest, w.Welcome.Sum = b.core.state.Last, session.EnvelopeSum([]byte("another"))
	b.step(Frame{b.stream, &w})
	if why, _ := b.core.Renounced(); !strings.Contains(why, "another batch") {
		t.Fatalf("lost: %q", why)
	}
}

func TestAWorkerWithAPastSignsNothingBeforeACoordinatorHasSpokenOrAWhileHasPassed(t *testing.T) {
	b := newBox(t)
	b.fate = func(taskstate.TaskID) fate { return fateRuns }
	b.session(1, grantOf(jobWork, 1, 1))
	b.runs(wtask(jobWork, 1))
	b.settle()
	b.crash(true)
	last := b.core.state.Last
	b.step(nil)
	if b.txn != nil || b.core.state.Last != last || !b.core.wake.Equal(b.core.signing.born.Add(signGrace)) {
		t.Fatalf("it signed at once, or will not: %v", b.core.wake)
	}
	b.now = b.core.wake
	b.step(nil)
	if b.core.state.Last != last+1 {
		t.Fatal("without a coordinator others never hear that its task runs")
	}
}

// Simulated: all peers but some had just started, the one that coordinates too. What it did not
// know yet the others did.
func TestACoordinatorThatHasHeardLessThanWasAcknowledgedIsNotAllAWorkerWaitsFor(t *testing.T) {
	b := newBox(t)
	b.fate = func(taskstate.TaskID) fate { return fateRuns }
	b.session(1, grantOf(jobWork, 1, 1))
	b.runs(wtask(jobWork, 1))
	b.settle()
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1))) // which brings that to the disk
	b.settle()
	b.crash(true)
	b.open()
	last, w := b.core.state.Last, welcomeIn(2)
	b.step(Frame{b.stream, &w})
	b.settle()
	if b.core.state.Last != last || b.core.signing.vouched.IsZero() || !b.core.wake.Equal(b.core.signing.vouched) {
		t.Fatalf("it signed at once, or will not: %d, %v", b.core.state.Last, b.core.wake)
	}
	b.step(Seen{benchLife, last + 1})
	if why, _ := b.core.Renounced(); !strings.Contains(why, "others have batch") {
		t.Errorf("lost: %q", why)
	}
}

func TestAClockThatIsSetBackKeepsAWorkerThatWasVouchedForFromNothing(t *testing.T) {
	b := newBox(t)
	b.fate = func(taskstate.TaskID) fate { return fateRuns }
	b.session(1, grantOf(jobWork, 1, 1))
	b.runs(wtask(jobWork, 1))
	b.settle()
	b.core.signing.vouched = b.now.Add(hearGrace)
	b.now = b.now.Add(-time.Hour)
	last := b.core.state.Last
	b.finish(wtask(jobWork, 1), taskstate.Complete, "")
	b.settle()
	if b.core.state.Last <= last {
		t.Error("nobody hears of the end: it waits for a moment that is an hour away")
	}
}

// claimed opens a worker on a folder, and returns which incarnation it has and why another one than
// before.
func claimed(t *testing.T, dir string, first taskstate.Incarnation, start uint64, stamps ...uint64) (taskstate.Incarnation, string) {
	t.Helper()
	head, why, err := claimJournal(&Config{Self: benchPeer, Incarnation: first, Dir: dir, Start: starts.Start{Number: start}, Stamps: stamps})
	if err != nil {
		t.Fatal(err)
	}
	j, _, err := journal.Open(t.Context(), dir, head.Owner, start)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return head.Owner.Incarnation, why
}

func TestAJournalThatIsGoneDamagedOrFromBeforeTheLastStartBeginsAnotherIncarnation(t *testing.T) {
	for name, hurt := range map[string]func(file string, old []byte) error{
		"gone":    func(file string, _ []byte) error { return os.Remove(file) },
		"emptied": func(file string, _ []byte) error { return os.Truncate(file, 0) },
		"garbage": func(file string, old []byte) error {
			return os.WriteFile(file, []byte(strings.Repeat("nonsense", len(old)/8)), 0o600)
		},
		"older than the last start": func(file string, old []byte) error { return os.WriteFile(file, old, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, journal.FileName)
			if inc, why := claimed(t, dir, benchLife, 1); inc != benchLife || why != "" {
				t.Fatalf("a new folder begins as %s, %q", inc, why)
			}
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if inc, why := claimed(t, dir, "", 2, 0, 1); inc != benchLife || why != "" {
				t.Fatalf("a plain restart goes on as %s, %q", inc, why)
			}
			if err := hurt(file, old); err != nil {
				t.Fatal(err)
			}
			inc, why := claimed(t, dir, "", 3, 2)
			if inc == benchLife || inc == "" || why == "" {
				t.Fatalf("it goes on as %q, %q", inc, why)
			}
			if again, why := claimed(t, dir, "", 4, 3); again != inc || why != "" {
				t.Fatalf("the next start goes on as %s, %q", again, why)
			}
		})
	}
}

func TestAJournalThatEndsBeforeWhatItsPeerRemembersOfItBeginsAnotherIncarnation(t *testing.T) {
	for remembered, anew := range map[uint64]bool{0: false, 4: false, 5: true} {
		dir := t.TempDir()
		head := testHead()
		head.State.Last = 4
		if err := journal.Create(dir, head); err != nil {
			t.Fatal(err)
		}
		head, why, err := claimJournal(&Config{Self: benchPeer, Dir: dir, Signed: func(inc taskstate.Incarnation) uint64 {
			if inc != benchLife {
				t.Errorf("asked for the life %q", inc)
			}
			return remembered
		}})
		if err != nil || (why != "") != anew || (head.Owner.Incarnation != benchLife) != anew {
			t.Errorf("with batch %d remembered it goes on as %s: %q %v", remembered, head.Owner.Incarnation, why, err)
		}
	}
}

// A journal whose damage shows only when all of it is read is replaced while the worker runs: what
// the old one had running is ended by the runner, and the new one is told as another.
func TestDamageFoundLateBeginsAnotherIncarnationInPlace(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := &scriptedCoordinator{name: "robin"}
		broken := true
		if err := journal.Create(dir, testHead()); err != nil {
			t.Fatal(err)
		}
		r := rigOn(t, dir, testHead(), func(ctx context.Context, owner journal.Owner) (journal.Journal, *journal.Image, error) {
			if broken {
				broken = false
				return nil, nil, errors.Join(journal.ErrCorrupt)
			}
			j, img, err := journal.Open(ctx, dir, owner, 0)
			return j, img, err
		}, []*scriptedCoordinator{c})
		r.pass(time.Second)
		if len(c.hellos) == 0 || r.w.Incarnation() == benchLife || c.hellos[len(c.hellos)-1].Incarnation != r.w.Incarnation() {
			t.Fatalf("%d sessions, incarnation %s", len(c.hellos), r.w.Incarnation())
		}
		if r.w.Health() != nil {
			t.Fatal(r.w.Health())
		}
		r.close()
	})
}

func TestAWorkerThatFindsOutWhileItRunsStopsItsTasksBeforeItGoesOnAsAnother(t *testing.T) {
	c := &scriptedCoordinator{name: "robin", grants: func(nth int) []session.Grant {
		if nth > 1 {
			return nil
		}
		return []session.Grant{{Job: jobWork, Index: 1, Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}}}
	}}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := slowShellRig(t, dir, func(context.Context) error { return nil }, c)
		r.pass(time.Second)
		if len(r.runner.starts) != 1 {
			t.Fatalf("%d tasks run", len(r.runner.starts))
		}
		r.w.Seen("another", 99, true)
		r.pass(time.Second)
		if r.w.Incarnation() != benchLife {
			t.Fatal("what others hold of another incarnation counts")
		}
		r.w.Seen(benchLife, 99, false)
		r.pass(time.Second)
		if len(r.runner.stopped) != 1 || r.w.Incarnation() == benchLife {
			t.Fatalf("%d were stopped, incarnation %s", len(r.runner.stopped), r.w.Incarnation())
		}
		if last := c.hellos[len(c.hellos)-1]; last.Incarnation != r.w.Incarnation() || last.Last != 0 {
			t.Fatalf("it says Hello as %+v", last)
		}
		r.close()
	})
}

func TestAJournalOfAnotherPeerOrFormatIsRefusedAndLeftAsItIs(t *testing.T) {
	for _, other := range []journal.Owner{
		{Format: journal.Format, Peer: "robin", Incarnation: benchLife},
		{Format: journal.Format + 1, Peer: benchPeer, Incarnation: benchLife},
	} {
		dir := t.TempDir()
		if err := journal.Create(dir, journal.Head{Owner: other}); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(filepath.Join(dir, journal.FileName))
		if err != nil {
			t.Fatal(err)
		}
		for _, first := range []taskstate.Incarnation{"", benchLife} {
			_, _, err := claimJournal(&Config{Self: benchPeer, Incarnation: first, Dir: dir})
			if !errors.Is(err, journal.ErrForeign) || errors.Is(err, journal.ErrCorrupt) {
				t.Fatalf("%+v got: %v", other, err)
			}
		}
		if after, err := os.ReadFile(filepath.Join(dir, journal.FileName)); err != nil || !bytes.Equal(before, after) {
			t.Fatalf("it was touched: %v", err)
		}
	}
}
