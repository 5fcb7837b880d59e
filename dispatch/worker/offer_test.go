package worker

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// offers lists the processors and labels that were offered on the open stream.
func (b *box) offers() (all []session.Offer) {
	for _, u := range b.ups {
		if u.Offer != nil {
			all = append(all, *u.Offer)
		}
	}
	return all
}

func TestAChangedDescriptionIsSaidInTheSessionAndCountsAtOnce(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3)) // two fit
	more := testOffer()
	more.Labels = map[string]string{"zone": "west"}
	b.step(OfferChanged{more})
	got := b.offers()
	if len(b.ended) > 0 || len(got) != 1 || got[0].Labels["zone"] != "west" || got[0].Resources != more.Resources {
		t.Fatalf("said %+v, ended %v", got, b.ended)
	}
	less := more
	less.Resources.MilliCPU = 1000
	b.step(OfferChanged{less})
	b.finish(wtask(jobWork, 1), taskstate.Complete, "")
	b.settle()
	wantRunning(t, b, wtask(jobWork, 2)) // one runs, and one is what there is
	b.finish(wtask(jobWork, 2), taskstate.Complete, "")
	b.settle()
	wantRunning(t, b, wtask(jobWork, 3))
}

func TestADescriptionThatChangesWhileTheStreamOpensIsSaidAfterTheWelcome(t *testing.T) {
	b := newBox(t)
	b.open()
	o := testOffer()
	o.Name = "finch"
	b.step(OfferChanged{o})
	if got := b.offers(); len(got) != 0 {
		t.Fatalf("said before the Welcome: %+v", got)
	}
	b.down(welcomeIn(1))
	if got := b.offers(); len(got) != 1 || got[0].Name != "finch" {
		t.Fatalf("said %+v", got)
	}
	b.step(Closed{b.stream})
	b.open()
	if hello := b.ups[0].Hello; hello == nil || hello.Offer.Name != "finch" {
		t.Fatalf("%+v", b.ups[0])
	}
}

// What is free is kept for the first in the queue: what can never start must not stand in it.
func TestWhatWaitsAndNeedsMoreThanIsOfferedNowGoesBack(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	less := testOffer()
	less.Resources.MilliCPU = 500
	b.said()
	b.step(OfferChanged{less})
	b.settle()
	wantRunning(t, b, wtask(jobWork, 1), wtask(jobWork, 2)) // what runs goes on
	wantSaid(t, b, "work222222.3.1 rejected recalled")
}

func TestAPeerThatComesBackWithLessToOfferGivesBackWhatWaitedInItsJournal(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobOnce, 1, 4)) // two run
	b.crash(false)
	b.core.offer.Resources.MilliCPU = 500 // as the command line says now
	b.open()
	b.down(welcomeIn(1))
	b.settle()
	b.said()
	b.down(setOf(true, 1, 0, 1, grantOf(jobOnce, 3, 2), grantOf(jobNoop, 1, 1)))
	b.settle()
	wantRunning(t, b, wtask(jobNoop, 1))
	wantSaid(t, b, "once222222.3.1 rejected recalled", "once222222.4.1 rejected recalled")
}
