package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

func wtask(job taskstate.JobID, slot int) taskstate.TaskID { return taskstate.Task(job, slot, 1) }

// word is a status in short, for comparing lists of them.
func word(s taskstate.Status) string {
	w := s.Task.String() + " " + s.State.String()
	if s.Reason != "" {
		w += " " + string(s.Reason)
	}
	return w
}

func wantSaid(t *testing.T, b *box, want ...string) {
	t.Helper()
	var got []string
	for _, s := range b.said() {
		got = append(got, word(s))
	}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Fatalf("said  %v\nwant  %v", got, want)
	}
}

func TestNothingStartsBeforeItsAssignmentIsOnDisk(t *testing.T) {
	b := newBox(t)
	b.session(1)
	b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 3), grantOf(jobWork, 1, 1)))
	if len(b.running) != 0 {
		t.Fatalf("%v run before the disk knows them", b.sorted())
	}
	b.save()
	if len(b.running) != 4 {
		t.Fatalf("run: %v", b.sorted())
	}
}

func TestATaskThatEndsAtOnceNeverShowsThatItRan(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 1))
	b.publishing = true // hold the next batch back
	b.core.outbox.publishing = true
	b.runs(wtask(jobNoop, 1))
	b.finish(wtask(jobNoop, 1), taskstate.Complete, "")
	b.settle()
	wantSaid(t, b, "noop222222.1.1 complete")
}

func TestAStatusIsSaidOnlyWhenItIsOnDisk(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 1))
	b.finish(wtask(jobNoop, 1), taskstate.Complete, "")
	wantSaid(t, b)
	b.save()
	wantSaid(t, b, "noop222222.1.1 complete")
}

func TestStatusesGatherWhileTheLastBatchIsUnderWay(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 3))
	b.finish(wtask(jobNoop, 1), taskstate.Complete, "")
	b.save() // batch 1 is on disk, its publication under way
	b.finish(wtask(jobNoop, 2), taskstate.Complete, "")
	b.finish(wtask(jobNoop, 3), taskstate.Complete, "")
	if b.txn != nil {
		t.Fatal("a batch was cut while the last one is being published")
	}
	b.publish()
	if b.txn == nil || len(b.txn.Batches) != 1 || len(b.txn.Batches[0].Statuses) != 2 {
		t.Fatalf("want one batch of two, have %+v", b.txn)
	}
}

func TestTasksRunInTurnAsResourcesAllow(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 4))
	wantRunning(t, b, wtask(jobWork, 1), wtask(jobWork, 2))
	wantSaid(t, b, "work222222.3.1 accepted", "work222222.4.1 accepted")
	b.finish(wtask(jobWork, 2), taskstate.Complete, "")
	wantRunning(t, b, wtask(jobWork, 1), wtask(jobWork, 3))
	b.settle()
	b.finish(wtask(jobWork, 1), taskstate.Failed, taskstate.ReasonExit)
	wantRunning(t, b, wtask(jobWork, 3), wtask(jobWork, 4))
}

func TestWhatPromisesNothingOvertakesTheQueue(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 4), grantOf(jobNoop, 1, 1))
	wantRunning(t, b, wtask(jobNoop, 1), wtask(jobWork, 1), wtask(jobWork, 2))
}

func wantRunning(t *testing.T, b *box, want ...taskstate.TaskID) {
	t.Helper()
	got := b.sorted()
	if len(got) != len(want) {
		t.Fatalf("run: %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("run: %v, want %v", got, want)
		}
	}
}

func TestSetsMustFollowEachOther(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames []session.Down
		starts int
		resync int
	}{
		{"in order", []session.Down{setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1)), setOf(false, 1, 2, 3, grantOf(jobNoop, 2, 1))}, 2, 0},
		{"twice the same", []session.Down{setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1)), setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1))}, 1, 0},
		{"a gap asks once", []session.Down{
			setOf(false, 1, 2, 3, grantOf(jobNoop, 2, 1)), setOf(false, 1, 3, 4, grantOf(jobNoop, 3, 1)), setOf(false, 1, 4, 5),
		}, 0, 1},
		{"a Complete set heals a gap", []session.Down{
			setOf(false, 1, 2, 3, grantOf(jobNoop, 2, 1)), setOf(true, 1, 0, 4, grantOf(jobNoop, 1, 3)), setOf(false, 1, 4, 5, grantOf(jobNoop, 4, 1)),
		}, 4, 1},
		{"a second gap asks again", []session.Down{
			setOf(false, 1, 2, 3), setOf(true, 1, 0, 4), setOf(false, 1, 5, 6),
		}, 0, 2},
		{"an old Complete set changes nothing", []session.Down{
			setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1)), setOf(true, 1, 0, 1),
		}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBox(t)
			b.session(1)
			b.ups = nil
			for _, f := range c.frames {
				b.down(f)
				b.settle()
			}
			asked := 0
			for _, u := range b.ups {
				if u.Resync != nil {
					asked++
				}
			}
			if len(b.running) != c.starts || asked != c.resync || len(b.ended) != 0 {
				t.Fatalf("started %d (want %d), asked %d times (want %d), ended %v", len(b.running), c.starts, asked, c.resync, b.ended)
			}
		})
	}
}

func TestASplitSetCountsOnlyWhenItsLastPartIsThere(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 2))
	first, last := setOf(true, 1, 0, 5, grantOf(jobWork, 1, 1)), setOf(true, 1, 0, 5, grantOf(jobWork, 2, 1))
	first.Assignments.More = true
	b.down(first)
	if len(b.halted) != 0 {
		t.Fatalf("stopped %v after the first part", b.halted)
	}
	b.down(last)
	if len(b.halted) != 0 {
		t.Fatalf("stopped %v, which the parts list together", b.halted)
	}
	b.down(setOf(true, 1, 0, 6, grantOf(jobWork, 2, 1)))
	if len(b.halted) != 1 || b.halted[0].Task != wtask(jobWork, 1) {
		t.Fatalf("stopped %v, want what is no longer listed", b.halted)
	}
}

func TestOldEpochsAreNotObeyed(t *testing.T) {
	b := newBox(t)
	b.session(5)
	b.open()
	b.down(welcomeIn(4))
	if len(b.ended) != 1 {
		t.Fatal("a Welcome of an older epoch was taken")
	}
	b.session(5)
	b.down(setOf(false, 4, 1, 2, grantOf(jobNoop, 1, 1)))
	b.settle()
	if len(b.ended) != 2 || len(b.running) != 0 {
		t.Fatalf("ended %d sessions, runs %v", len(b.ended), b.sorted())
	}
	b.session(5)
	b.down(setOf(false, 6, 1, 2, grantOf(jobNoop, 1, 1)))
	if len(b.ended) != 3 || b.core.state.Fence != taskstate.At(1, 5) {
		t.Fatalf("a command raised the fence to %v", b.core.state.Fence)
	}
	b.crash(false)
	b.open()
	b.down(welcomeIn(4))
	if len(b.ended) != 4 {
		t.Fatal("the fence was forgotten over a restart")
	}
}

func TestACommandWaitsUntilItsEpochIsOnDisk(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 1))
	b.open()
	b.down(welcomeIn(2))
	b.down(setOf(true, 2, 0, 1))
	b.down(session.Down{Ack: &session.Ack{Batch: 1}})
	if len(b.halted) != 0 {
		t.Fatal("obeyed before the fence is on disk")
	}
	b.save()
	if len(b.halted) != 1 {
		t.Fatal("not obeyed when the fence is on disk")
	}
}

func TestRecallTakesBackOnlyWhatHasNotStarted(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.said()
	d := setOf(false, 1, 1, 2)
	d.Assignments.Recall = []taskstate.TaskID{wtask(jobWork, 1), wtask(jobWork, 3), wtask(jobWork, 9)}
	b.down(d)
	b.settle()
	wantSaid(t, b, "work222222.3.1 rejected recalled")
	wantRunning(t, b, wtask(jobWork, 1), wtask(jobWork, 2))
	wantDropped(t, b, wtask(jobWork, 9))
	b.finish(wtask(jobWork, 1), taskstate.Complete, "")
	wantRunning(t, b, wtask(jobWork, 2))
}

func wantDropped(t *testing.T, b *box, want ...taskstate.TaskID) {
	t.Helper()
	var got []taskstate.TaskID
	for _, u := range b.ups {
		if u.Dropped != nil {
			got = append(got, u.Dropped.Tasks...)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("dropped %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("dropped %v, want %v", got, want)
		}
	}
	b.ups = nil
}

func TestAStopReachesTasksWhereverTheyStand(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.said()
	d := setOf(false, 1, 1, 2, grantOf(jobWork, 4, 1))
	for slot := 1; slot <= 5; slot++ {
		d.Assignments.Stop = append(d.Assignments.Stop, session.Stop{Task: wtask(jobWork, slot), Reason: taskstate.ReasonCancelled})
	}
	b.down(d) // 1 and 2 run, 3 waits, 4 comes with the same frame, 5 is unknown
	if len(b.halted) != 2 {
		t.Fatalf("halted %v", b.halted)
	}
	wantDropped(t, b)
	b.settle()
	wantDroppedAndSaid(t, b, []taskstate.TaskID{wtask(jobWork, 5)}, "work222222.3.1 shutdown cancelled", "work222222.4.1 shutdown cancelled")
	b.finish(wtask(jobWork, 1), taskstate.Shutdown, taskstate.ReasonCancelled)
	b.finish(wtask(jobWork, 2), taskstate.Shutdown, taskstate.ReasonCancelled)
	b.settle()
	wantRunning(t, b)
}

func wantDroppedAndSaid(t *testing.T, b *box, dropped []taskstate.TaskID, said ...string) {
	t.Helper()
	all := b.ups
	wantSaid(t, b, said...)
	b.ups = all
	wantDropped(t, b, dropped...)
}

func TestATombstoneOutlivesARestartAndForbidsALateLaunch(t *testing.T) {
	b := newBox(t)
	b.session(1)
	d := setOf(false, 1, 1, 2)
	d.Assignments.Stop = []session.Stop{{Task: wtask(jobWork, 5), Reason: taskstate.ReasonCancelled}}
	b.down(d)
	d.Assignments.AppliesTo, d.Assignments.ResultsIn = 2, 3
	b.down(d)
	wantDropped(t, b) // not before the disk knows
	b.settle()
	wantDropped(t, b, wtask(jobWork, 5))
	b.crash(false)
	b.open()
	b.down(welcomeIn(1))
	b.settle()
	b.ups = nil
	b.down(setOf(true, 1, 0, 1, grantOf(jobWork, 4, 2)))
	b.settle()
	wantRunning(t, b, wtask(jobWork, 4))
	wantDropped(t, b, wtask(jobWork, 5))
}

func TestTombstonesAreBounded(t *testing.T) {
	b := newBox(t)
	b.session(1)
	for round := range 3 {
		d := setOf(false, 1, uint64(1+round), uint64(2+round))
		for i := range maxTombstones / 2 {
			d.Assignments.Stop = append(d.Assignments.Stop, session.Stop{Task: wtask(jobWork, round*maxTombstones+i+1)})
		}
		b.down(d)
		b.settle()
	}
	d := setOf(false, 1, 4, 5, grantOf(jobNoop, 1, 1)) // what is to be removed goes with the next transaction
	b.down(d)
	b.settle()
	if n := len(b.kv[journal.BucketTombs]); n != maxTombstones || len(b.core.tombs.of) != n {
		t.Fatalf("%d tombstones on disk, %d in memory, the bound is %d", n, len(b.core.tombs.of), maxTombstones)
	}
}

func TestWhatIsAcknowledgedLeavesMemoryAndJournal(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 5), grantOf(jobWork, 1, 1))
	b.runs(wtask(jobWork, 1))
	for i := 1; i <= 5; i++ {
		b.finish(wtask(jobNoop, i), taskstate.Complete, "")
		b.settle()
	}
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.crash(false) // what was acknowledged is told again
	if len(b.core.held.of) != 6 {
		t.Fatalf("holds %d", len(b.core.held.of))
	}
	b.session(1, grantOf(jobWork, 1, 1))
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.step(Stop{})
	b.settle()
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.settle()
	if b.kv.Records() != 0 || len(b.kv[journal.BucketTombs]) != 0 || len(b.core.held.of) != 0 || len(b.core.frames.of) != 0 {
		t.Fatalf("left: %d records, %d tasks, %d frames: %v", b.kv.Records(), len(b.core.held.of), len(b.core.frames.of), b.kv)
	}
}

// A schedule leaves many jobs of one task. Nothing more may come to be written for a long time.
func TestTheJobsOfALargeSetThatIsOverLeaveTheJournalAtOnce(t *testing.T) {
	b := newBox(t)
	var grants []session.Grant
	var tasks []taskstate.TaskID
	for i := range 2 * lazyTidy {
		grants = append(grants, grantOf(taskstate.JobID(fmt.Sprintf("job%07d", i)), 1, 1))
		tasks = append(tasks, wtask(grants[i].Job, 1))
	}
	b.session(1, grants...)
	for len(tasks) > 0 {
		tasks = slices.DeleteFunc(tasks, func(id taskstate.TaskID) bool {
			if _, ok := b.running[id]; !ok {
				return false
			}
			b.finish(id, taskstate.Complete, "")
			return true
		})
		b.settle()
		b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
		b.settle()
	}
	if n := b.kv.Records(); n > lazyTidy {
		t.Errorf("%d records are left of %d jobs that are over", n, 2*lazyTidy)
	}
}

func TestAnUnacknowledgedBatchIsSentAgainAsItWas(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 3))
	for i := 1; i <= 3; i++ {
		b.finish(wtask(jobNoop, i), taskstate.Complete, "")
		b.settle()
	}
	b.down(session.Down{Ack: &session.Ack{Batch: 1}})
	for _, again := range []func(){func() { b.step(Closed{b.stream}) }, func() { b.crash(true) }} {
		again()
		b.open()
		b.down(welcomeIn(1))
		b.settle()
		said := b.said()
		if n := len(said); n < 2 || said[n-1].Task != wtask(jobNoop, 3) || said[n-2].Task != wtask(jobNoop, 2) {
			t.Fatalf("sent again: %v", said)
		}
	}
}

// The batch that told it is gone from the journal, and others keep it only as long as nobody says
// that it may go: a peer that comes later must hear of the task all the same.
func TestAfterARestartWhatStillRunsIsToldAnewAndNothingIsRetiredBefore(t *testing.T) {
	b := newBox(t)
	b.fate = func(taskstate.TaskID) fate { return fateRuns }
	b.session(1, grantOf(jobWork, 1, 1))
	b.runs(wtask(jobWork, 1))
	b.settle()
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1))) // with this the journal hears of the acknowledgement
	b.settle()
	b.crash(true)
	b.core.state.Acked += retireEvery
	if n := b.core.Retirable(); n != 0 {
		t.Errorf("up to %d is retired, and one of those tells what still runs", n)
	}
	b.core.state.Acked -= retireEvery
	b.open()
	b.down(welcomeIn(1))
	b.settle()
	var said []string
	for _, s := range b.said() {
		said = append(said, word(s))
	}
	if !slices.Contains(said, "work222222.1.1 running") {
		t.Errorf("said %v", said)
	}
}

func TestAfterARestartWhatRanIsOverAndWhatWaitedIsAskedAbout(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobOnce, 1, 2), grantOf(jobOnce, 10, 3))
	b.runs(wtask(jobOnce, 1))
	b.settle()
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}}) // the batch that said it runs may leave the journal; that it ran may not
	d := setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1))
	b.down(d)
	b.settle()
	b.crash(false)
	if len(b.begun) != 3 {
		t.Fatalf("asked for %v", b.begun)
	}
	if s := b.core.held.of[wtask(jobOnce, 1)].status; s.Seq != 3 {
		t.Fatalf("numbers go on after Accepted and Running: %+v", s)
	}
	b.settle()
	wantRunning(t, b)
	b.open()
	b.down(welcomeIn(1))
	b.settle()
	wantSaid(t, b, "once222222.1.1 orphaned interrupted", "once222222.2.1 orphaned interrupted", "noop222222.1.1 orphaned interrupted")
	wantRunning(t, b)
	b.down(setOf(true, 1, 0, 1, grantOf(jobOnce, 10, 2), grantOf(jobOnce, 1, 2), grantOf(jobNoop, 1, 1)))
	b.settle()
	wantRunning(t, b, wtask(jobOnce, 10), wtask(jobOnce, 11))
	wantSaid(t, b, "once222222.12.1 shutdown cancelled", "once222222.10.1 accepted", "once222222.11.1 accepted") // 12 is not ours any more
}

func TestSigtermGivesEverythingBack(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.said()
	b.step(Stop{})
	b.down(setOf(false, 1, 1, 2, grantOf(jobWork, 9, 1))) // was under way
	b.settle()
	if published, _ := b.core.Quiet(); published || len(b.halted) != 2 {
		t.Fatalf("halted %v", b.halted)
	}
	for _, s := range b.halted {
		b.finish(s.Task, taskstate.Shutdown, s.Reason)
	}
	b.settle()
	wantSaid(t, b, "work222222.3.1 rejected interrupted", "work222222.9.1 rejected interrupted", "work222222.1.1 shutdown interrupted", "work222222.2.1 shutdown interrupted")
	if published, acked := b.core.Quiet(); !published || acked {
		t.Fatalf("quiet: %v, %v", published, acked)
	}
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.settle()
	if _, acked := b.core.Quiet(); acked {
		t.Fatal("gone while more may be on its way here")
	}
	b.down(session.Down{Released: &session.Released{}})
	if _, acked := b.core.Quiet(); !acked {
		t.Fatal("not done though all is acknowledged")
	}
}

func TestAGrantThatMakesNoSenseEndsTheSession(t *testing.T) {
	for name, g := range map[string]session.Grant{
		"slot 0":         grantOf(jobNoop, 0, 1),
		"too many":       grantOf(jobNoop, 1, journal.MaxTasks+1),
		"no attempt":     {Job: jobNoop, Slots: []ledger.Slots{{First: 1, N: 1}}},
		"overflow":       {Job: jobNoop, Slots: []ledger.Slots{{First: 1<<63 - 1, N: 1, Attempt: 1}}},
		"items missing":  {Job: jobNoop, Slots: []ledger.Slots{{First: 1, N: 2, Attempt: 1}}, Items: []string{"a"}},
		"an evil job id": {Job: "../../etc", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.session(1)
			b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1), g))
			b.settle()
			if len(b.ended) != 1 || len(b.core.held.of) != 0 {
				t.Fatalf("ended %v, holds %d", b.ended, len(b.core.held.of))
			}
		})
	}
}

func TestEveryItemReachesItsTask(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobOnce, 2, 1), grantOf(jobWork, 1, 1)) // both slots are taken
	g := session.Grant{Job: jobOnce, Index: 7, Slots: []ledger.Slots{{First: 1, N: 5, Attempt: 1}}, Items: []string{"a", "b", "c", "d", "e"}}
	b.down(setOf(false, 1, 1, 2, g)) // 2 is known already
	b.settle()
	b.crash(true)
	b.session(1, g)
	b.settle()
	wantRunning(t, b, wtask(jobOnce, 1), wtask(jobOnce, 3))
	for slot, want := range map[int]string{1: "a", 3: "c"} {
		if got := b.running[wtask(jobOnce, slot)].Item; got != want {
			t.Errorf("slot %d has item %q, want %q", slot, got, want)
		}
	}
}

func TestAMessageOfDebrisIsMadeReadable(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 1))
	delete(b.running, wtask(jobNoop, 1))
	b.step(Ran{[]taskstate.RunReport{{
		Task: wtask(jobNoop, 1), State: taskstate.Failed, Reason: "\xff", Message: strings.Repeat("ü", taskstate.MaxMessage) + "\xff",
	}}})
	b.settle()
	if s := b.said(); len(s) != 1 || len(s[0].Message) != taskstate.MaxMessage || s[0].Reason != "" {
		t.Fatalf("said %v", s)
	}
}

func TestAnAcknowledgementForgetsOnlyEndsItCovers(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.settle() // batch 1: the third waits
	b.finish(wtask(jobWork, 3-2), taskstate.Complete, "")
	b.settle()
	b.finish(wtask(jobWork, 3), taskstate.Complete, "")
	b.settle()
	b.down(session.Down{Ack: &session.Ack{Batch: 1}})
	b.down(setOf(true, 1, 0, 9, grantOf(jobWork, 1, 3))) // the ledger does not know the end yet
	b.settle()
	wantRunning(t, b, wtask(jobWork, 2)) // and the box fails if 3 is started again
}

func TestABodyThatOneLiveTaskNeedsStaysInTheJournal(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 1), grantOf(jobWork, 1, 1)) // one frame
	b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 2, 1)))        // another
	b.settle()
	b.finish(wtask(jobNoop, 1), taskstate.Complete, "")
	b.settle()
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.runs(wtask(jobWork, 1)) // writes that away
	b.settle()
	b.crash(true)
	b.session(1, grantOf(jobNoop, 2, 1), grantOf(jobWork, 1, 1))
	b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
	b.down(setOf(false, 1, 1, 2, grantOf(jobOnce, 1, 1)))
	b.settle() // every write is checked to load again
	if len(b.core.held.of) != 1 {
		t.Fatalf("holds %v", b.core.held.all())
	}
}

func TestABodyThatWasDroppedIsAskedForAgain(t *testing.T) {
	b := newBox(t)
	b.session(1)
	b.ups = nil
	d := setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1))
	d.Assignments.Jobs = nil
	b.down(d)
	if len(b.ups) != 1 || b.ups[0].Resync == nil || len(b.ended) != 0 {
		t.Fatalf("sent %+v, ended %v", b.ups, b.ended)
	}
}

func TestBodiesWithoutTasksAreBounded(t *testing.T) {
	b := newBox(t)
	b.session(1)
	for i := range 3 * maxIdleJobs / 100 {
		d := setOf(false, 1, uint64(1+i), uint64(2+i), grantOf(jobNoop, i+1, 1))
		for n := range 100 {
			d.Assignments.Jobs = append(d.Assignments.Jobs, taskstate.Job{ID: taskstate.JobID(strings.Repeat("x", i+1) + strings.Repeat("y", n))})
		}
		b.down(d)
		b.settle()
	}
	if len(b.core.bodies.of) > maxIdleJobs+200 || b.core.bodies.idle < 0 || b.core.bodies.idleBytes < 0 {
		t.Fatalf("%d bodies, %d idle of %d bytes", len(b.core.bodies.of), b.core.bodies.idle, b.core.bodies.idleBytes)
	}
}

func TestABatchIsRetiredOnceItIsAcknowledgedAndNoTaskThatGoesOnHasItsNewestStatusInIt(t *testing.T) {
	c := &Core{held: tasks{of: map[taskstate.TaskID]*ownTask{}}}
	c.state.Acked = 5
	if n := c.Retirable(); n != 5 {
		t.Fatalf("nothing goes on: retirable %d, want 5", n)
	}
	if n := c.Retirable(); n != 0 {
		t.Fatalf("nothing new: retirable %d, want 0", n)
	}
	running := taskstate.Task("aaaaaaaaaa", 1, 1)
	c.held.of[running] = &ownTask{id: running, lastSaid: 9}
	c.state.Acked = 6
	if n := c.Retirable(); n != 0 {
		t.Fatalf("a few more while a task goes on: retirable %d, want 0", n)
	}
	c.state.Acked = 5 + retireEvery
	if n := c.Retirable(); n != 8 {
		t.Fatalf("a task goes on whose status is in batch 9: retirable %d, want 8", n)
	}
	delete(c.held.of, running)
	if n := c.Retirable(); n != 5+retireEvery {
		t.Fatalf("it ended: retirable %d, want %d", n, 5+retireEvery)
	}
}
