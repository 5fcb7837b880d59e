package worker

import (
	"errors"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

type codedError struct{ error }

func (codedError) Code() string { return "disk-full" }

func TestAWorkerThatIsToTakeNothingOnGivesBackWhatItHasNotBegun(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3), grantOf(jobOnce, 1, 1)) // two fit
	wantRunning(t, b, wtask(jobWork, 1), wtask(jobWork, 2))
	b.step(Refrain{codedError{errors.New("no room")}})
	b.settle()
	got := b.offers()
	if len(got) != 1 || got[0].Resources != (taskstate.Resources{}) || got[0].Trouble != "no room" || got[0].TroubleCode != "disk-full" {
		t.Fatalf("said %+v", got)
	}
	back := map[taskstate.TaskID]bool{}
	for _, s := range b.said() {
		if s.State == taskstate.Rejected && s.Reason == taskstate.ReasonRecalled && s.Message == "no room" {
			back[s.Task] = true
		}
	}
	if len(back) != 2 || !back[wtask(jobWork, 3)] || !back[wtask(jobOnce, 1)] {
		t.Errorf("given back: %v", back)
	}
	wantRunning(t, b, wtask(jobWork, 1), wtask(jobWork, 2)) // what runs goes on

	b.down(setOf(false, 1, 1, 2, grantOf(jobNoop, 1, 2), grantOf(jobWork, 4, 1))) // on its way before anybody knew
	b.settle()
	said := b.said()
	for _, s := range said {
		if s.State != taskstate.Rejected || s.Reason != taskstate.ReasonRecalled {
			t.Errorf("%+v", s)
		}
	}
	if len(said) != 3 {
		t.Errorf("of three that came later it said %+v", said)
	}

	b.step(Refrain{})
	if got := b.offers(); len(got) != 2 || got[1].Trouble != "" || got[1].Resources != testOffer().Resources {
		t.Fatalf("said %+v", got)
	}
	b.finish(wtask(jobWork, 1), taskstate.Complete, "")
	b.down(setOf(false, 1, 2, 3, grantOf(jobWork, 5, 1)))
	b.settle()
	wantRunning(t, b, wtask(jobWork, 2), wtask(jobWork, 5))
}

func TestTheFirstOfSeveralReasonsToTakeNothingOnIsSaidUntilAllAreGone(t *testing.T) {
	var r refrains
	one, two := errors.New("one"), errors.New("two")
	r.set("b", two)
	r.set("a", one)
	if r.first() != one {
		t.Error(r.first())
	}
	if r.set("a", nil); r.first() != two {
		t.Error(r.first())
	}
	if r.set("b", nil); r.first() != nil {
		t.Error(r.first())
	}
}
