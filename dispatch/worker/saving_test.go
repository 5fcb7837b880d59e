package worker

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// saving brings a box to where the process of the first of three tasks has ended and its files are
// being kept; there is room for two at once.
func saving(t *testing.T) (b *box, first taskstate.TaskID) {
	t.Helper()
	b, first = newBox(t), wtask(jobKeep, 1)
	b.session(1, grantOf(jobKeep, 1, 3))
	wantRunning(t, b, first, wtask(jobKeep, 2))
	b.saves(first, 0)
	return b, first
}

func TestATaskThatIsBeingSavedGivesItsPlaceToTheNext(t *testing.T) {
	b, first := saving(t)
	b.settle()
	wantRunning(t, b, wtask(jobKeep, 2), wtask(jobKeep, 3))
	if h := b.core.held.of[first]; h == nil || h.durable.State != taskstate.Saving || b.core.held.runs != 2 {
		t.Fatalf("held: %v, %d run", h, b.core.held.runs)
	}
	if b.kept[first] {
		t.Error("the runner may forget an end whose files are not kept yet")
	}
	b.finish(first, taskstate.Complete, "")
	b.settle()
	wantSaid(t, b, "keep222222.3.1 accepted", "keep222222.1.1 saving", "keep222222.1.1 complete")
}

func TestAnEndSaysWhatIsKept(t *testing.T) {
	b, first := saving(t)
	b.settle()
	b.ups = nil
	b.finish(first, taskstate.Complete, "")
	b.settle()
	said := b.said()
	want := &taskstate.Saved{Bytes: 9, Files: 1, Keepers: []taskstate.PeerID{benchPeer}, Keep: 2, Why: "nobody else is here"}
	if len(said) != 1 || !said[0].Saved.Equal(want) || said[0].Took != 20 {
		t.Errorf("said %+v", said)
	}
}

func TestARestartGoesOnSavingAndStartsNothingAgain(t *testing.T) {
	for _, acked := range []bool{false, true} {
		b, first := saving(t)
		b.settle()
		if acked { // the journal has the newest status then, and no batch that tells it
			b.down(session.Down{Ack: &session.Ack{Batch: b.lastBatch}})
			b.core.tidy.note(first, &b.core.held.of[first].durable)
			b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 1)))
			b.settle()
		}
		b.fate = func(taskstate.TaskID) fate { return fateRuns }
		b.crash(false)
		if _, ok := b.saving[first]; !ok {
			t.Fatalf("after the restart %v is saved", b.saving)
		}
		if h := b.core.held.of[first]; h.phase != phaseSaving {
			t.Fatalf("after the restart: %v", h)
		}
		b.session(2, grantOf(jobKeep, 1, 3))
		b.finish(first, taskstate.Complete, "")
		b.settle()
		if s := b.core.held.of[first].durable; s.State != taskstate.Complete || s.Saved == nil || b.started[first] != 1 {
			t.Errorf("it ended as %+v and was started %d times", s, b.started[first])
		}
	}
}

func TestWhatWasBeingSavedAndIsGoneIsLostAndNotRunAgain(t *testing.T) {
	b, first := saving(t)
	b.settle()
	b.crash(false)
	b.session(2, grantOf(jobKeep, 1, 1))
	if s := b.core.held.of[first].status; s.State != taskstate.Orphaned || s.Reason != taskstate.ReasonInterrupted {
		t.Errorf("it is %+v", s)
	}
	if b.started[first] != 1 {
		t.Errorf("it was started %d times", b.started[first])
	}
}

func TestAnOrderToStopBreaksSavingOff(t *testing.T) {
	for _, c := range []struct {
		name  string
		order func(*box, taskstate.TaskID)
		halts bool
	}{
		{"the job is cancelled", func(b *box, id taskstate.TaskID) {
			d := setOf(false, 1, 1, 2)
			d.Assignments.Stop = []session.Stop{{Task: id, Reason: taskstate.ReasonCancelled}}
			b.down(d)
		}, true},
		{"a Complete set does not list it", func(b *box, _ taskstate.TaskID) { b.down(setOf(true, 1, 1, 2, grantOf(jobKeep, 2, 2))) }, true},
		{"the peer leaves", func(b *box, _ taskstate.TaskID) { b.step(Stop{}) }, true},
		{"the peer ends for a while", func(b *box, _ taskstate.TaskID) { b.step(Detach{}) }, false},
		{"it is recalled", func(b *box, id taskstate.TaskID) {
			d := setOf(false, 1, 1, 2)
			d.Assignments.Recall = []taskstate.TaskID{id}
			b.down(d)
		}, false},
		{"the peer has less to give", func(b *box, _ taskstate.TaskID) { b.step(OfferChanged{session.Offer{}}) }, false},
		{"the peer is to take nothing on", func(b *box, _ taskstate.TaskID) { b.step(Refrain{errGrant}) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, first := saving(t)
			b.settle()
			c.order(b, first)
			halted := 0
			for _, s := range b.halted {
				if s.Task == first {
					halted++
				}
			}
			if (halted == 1) != c.halts || halted > 1 {
				t.Errorf("the runner was told %d times to stop it", halted)
			}
			if b.core.held.of[first].phase != phaseSaving {
				t.Errorf("it is %v: its end is the runner's to say", b.core.held.of[first])
			}
		})
	}
}

func TestWhatIsKeptCountsForTheSizeOfABatch(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobNoop, 1, 200))
	wide := &taskstate.Saved{Keep: taskstate.MaxKeep, Why: strings.Repeat("w", taskstate.MaxMessage), Root: piece.Root{1}, Logs: piece.Root{2}}
	for i := range taskstate.MaxKeep {
		wide.Keepers = append(wide.Keepers, taskstate.PeerID(strings.Repeat(string(rune('a'+i)), 52)))
	}
	var reports []taskstate.RunReport
	for slot := 1; slot <= 200; slot++ {
		reports = append(reports, taskstate.RunReport{Task: wtask(jobNoop, slot), State: taskstate.Complete, Saved: wide})
		delete(b.running, wtask(jobNoop, slot))
	}
	b.step(Ran{reports})
	b.settle() // a batch that is too large cannot be encoded
	if n := len(b.said()); n != 200 {
		t.Errorf("%d ends were said", n)
	}
}

// A batch that nobody may have written would keep all that follow from the journal.
func TestWhatCannotBeKeptIsNotSaid(t *testing.T) {
	b, first := saving(t)
	delete(b.saving, first)
	b.step(Ran{[]taskstate.RunReport{{Task: first, State: taskstate.Complete, Saved: &taskstate.Saved{Keepers: []taskstate.PeerID{"a", "a"}}}}})
	b.settle()
	if s := b.core.held.of[first].durable; s.State != taskstate.Complete || s.Saved != nil {
		t.Errorf("it says %+v", s)
	}
}

func TestAReasonForOwedCopiesThatIsTooLongIsCut(t *testing.T) {
	b, first := saving(t)
	long := &taskstate.Saved{Keep: 2, Why: strings.Repeat("ä", taskstate.MaxMessage)}
	delete(b.saving, first)
	b.step(Ran{[]taskstate.RunReport{{Task: first, State: taskstate.Complete, Saved: long}}})
	b.settle()
	if s := b.core.held.of[first].durable; len(s.Saved.Why) > taskstate.MaxMessage || len(long.Why) != 2*taskstate.MaxMessage {
		t.Errorf("it says %d bytes, and the report has %d", len(s.Saved.Why), len(long.Why))
	}
}
