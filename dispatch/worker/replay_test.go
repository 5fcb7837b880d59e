package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// slowJournal is a disk that gives a journal away only when it is told to.
func slowJournal() (replay func(context.Context) error, read func()) {
	over := make(chan struct{})
	replay = func(ctx context.Context) error {
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return replay, func() { close(over) }
}

// workLeft has a worker begin two tasks and end without them, which leaves a journal in dir. It
// returns who gave them.
func workLeft(t *testing.T, dir string) *scriptedCoordinator {
	t.Helper()
	robin := &scriptedCoordinator{name: "robin", grants: func(int) []session.Grant { return []session.Grant{grantOf(jobWork, 1, 2)} }}
	r := newShellRig(t, dir, nil, robin)
	r.pass(time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := r.w.Detach(ctx); err != nil {
		t.Fatal(err)
	}
	<-r.ended
	r.net.Close()
	return robin
}

func TestAWorkerThatReadsItsJournalBeatsSaysSoAndReportsAfterwards(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first := workLeft(t, dir)
		robin := &scriptedCoordinator{name: "robin", term: 2, grants: first.grants}
		replay, read := slowJournal()
		again := slowShellRig(t, dir, replay, robin)
		again.pass(time.Minute)
		if len(robin.hellos) != 1 || len(robin.beats) < 50 {
			t.Errorf("%d sessions and %d beats in a minute of reading", len(robin.hellos), len(robin.beats))
		}
		h := robin.hellos[0]
		if h.Offer.Resources != (taskstate.Resources{}) || !strings.Contains(h.Offer.Trouble, "reads its journal") {
			t.Errorf("it offered %+v; want nothing, and why", h.Offer)
		}
		if h.Fence != taskstate.At(1, 1) || h.Last == 0 {
			t.Errorf("Hello %+v does not say what was obeyed and signed before", h)
		}
		if robin.reports != 0 || len(again.runner.starts) != 0 || !errors.Is(again.w.Health(), ErrReplaying) {
			t.Errorf("%d reports, started %v, health %v, though nothing is known yet", robin.reports, again.runner.starts, again.w.Health())
		}
		read()
		again.pass(time.Second)
		if len(robin.hellos) != 1 || robin.reports != 1 || again.w.Health() != nil {
			t.Errorf("afterwards: %d sessions, %d reports, health %v; want the same session to go on", len(robin.hellos), robin.reports, again.w.Health())
		}
		if n := len(robin.offers); n != 1 || robin.offers[0].Resources != testOffer().Resources || robin.offers[0].Trouble != "" {
			t.Errorf("offers %+v; want what there really is to give", robin.offers)
		}
		again.close()
	})
}

func TestAWorkerThatIsToldToEndWhileItReadsDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay, _ := slowJournal()
		r := slowShellRig(t, t.TempDir(), replay, &scriptedCoordinator{name: "robin"})
		r.pass(time.Second)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := r.w.Detach(ctx); err != nil {
			t.Error(err)
		}
		if err := <-r.ended; err != nil || time.Since(begin) > 0 {
			t.Errorf("it ended with %v after %v", err, time.Since(begin))
		}
		r.net.Close()
	})
}

func TestAStopWhileTheJournalIsReadStopsWhatIsInIt(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		workLeft(t, dir)
		replay, read := slowJournal()
		again := slowShellRig(t, dir, replay, &scriptedCoordinator{name: "robin", term: 2})
		time.AfterFunc(5*time.Second, read)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := again.w.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := <-again.ended; err != nil {
			t.Error(err)
		}
		if n := again.coords["robin"].ended(); n != 2 {
			t.Errorf("%d of 2 ends were told", n)
		}
		again.net.Close()
	})
}
