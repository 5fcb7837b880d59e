package quorum

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// A peer that raft lets lead and that does not say so leaves its cluster without a coordinator:
// nobody else is elected.
func TestWhoIsElectedSaysSoUntilThatIsDecided(t *testing.T) {
	for what, failed := range map[string]error{
		"raft does not take it":      ledger.ErrNotCoordinator{},
		"the outcome went elsewhere": ErrOutcomeUnknown,
		"it could not be written":    errors.New("the disk is full"),
	} {
		synctest.Test(t, func(t *testing.T) {
			terms := &terms{cfg: &Config{Log: slog.New(slog.DiscardHandler)}, place: &ownSeat{rep: ledger.NewReplica()}}
			l := &leading{epoch: taskstate.At(1, 2), queue: make(chan *proposal, queueLen)}
			said := 0
			go func() {
				for _, err := range []error{failed, failed, nil} {
					p := <-l.queue
					said++
					p.done <- decided{err: err}
				}
			}()
			if err := terms.announce(t.Context(), l); err != nil || said != 3 {
				t.Errorf("%s: said %d times, %v", what, said, err)
			}
		})
	}
}

func TestWhoIsElectedSaysSoOnceIfItsReplicaHadTheEntryFromAnotherVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rep := ledger.NewReplica()
		terms := &terms{cfg: &Config{Log: slog.New(slog.DiscardHandler)}, place: &ownSeat{rep: rep}}
		l := &leading{epoch: taskstate.At(1, 2), queue: make(chan *proposal, queueLen)}
		go func() {
			p := <-l.queue
			rep.Apply(ledger.Entry{Index: 1, Epoch: l.epoch, By: "me", Commands: []ledger.Command{{Lead: &ledger.Lead{Chain: true}}}})
			p.done <- decided{err: ErrOutcomeUnknown}
		}()
		if err := terms.announce(t.Context(), l); err != nil || len(l.queue) > 0 {
			t.Errorf("%v, and %d more", err, len(l.queue))
		}
	})
}

func TestWhoIsElectedCatchesUpHoweverOftenABarrierIsRefusedWhileItLeads(t *testing.T) {
	for what, c := range map[string]struct {
		refused int // barriers
		leads   time.Duration
		want    bool
	}{
		"nothing is refused":                {0, time.Hour, true},
		"a transfer is believed in still":   {7, time.Hour, true},
		"it leads no more":                  {7, 300 * time.Millisecond, false},
		"the term ends while it waits":      {700, time.Hour, false},
		"it led no more when that was said": {0, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began, left := time.Now(), c.refused
			barrier := func() error {
				if left--; left >= 0 {
					return raft.ErrLeadershipTransferInProgress
				}
				return nil
			}
			terms := &terms{cfg: &Config{Log: slog.New(slog.DiscardHandler)}}
			if got := terms.caughtUp(ctx, barrier, func() bool { return time.Since(began) < c.leads }); got != c.want {
				t.Errorf("%s: %t", what, got)
			}
		})
	}
}
