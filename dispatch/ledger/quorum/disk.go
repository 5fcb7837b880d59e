package quorum

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger/quorum/store"
)

// errStuck is why a leader whose disk is stuck sends nothing.
var errStuck = errors.New("this peer's disk is stuck")

// steadyTransport keeps a leader whose own log is stuck from being taken for one that works: raft
// sends heartbeats from other goroutines than the one that waits for the disk, for ever. Without
// them the others elect another.
type steadyTransport struct {
	*raft.NetworkTransport
	store *store.Log
}

var _ raft.WithPreVote = steadyTransport{}

// AppendEntries implements raft.Transport.
func (t steadyTransport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if _, stuck := t.store.Stuck(); stuck {
		return errStuck
	}
	return t.NetworkTransport.AppendEntries(id, to, req, resp)
}

// diskWatch says in the log when this voter's disk begins and ceases to take what is written. It
// ends this peer's own term when the disk is stuck: raft, which waits for the disk, cannot. That
// term is over for good: when the disk answers again, raft hears of the next one from the others,
// or begins one.
type diskWatch struct {
	place  *place
	terms  *terms
	prober *prober
	parker *parker
	log    *slog.Logger

	sick, stuck bool // as it saw last
}

// run watches until ctx ends.
func (w *diskWatch) run(ctx context.Context) {
	t := time.NewTimer(store.Look)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.parker.wake:
			t.Reset(store.Look)
			continue
		case <-t.C:
		}
		w.look(ctx)
		if !w.parker.park(w.busy) {
			t.Reset(store.Look)
		}
	}
}

func (w *diskWatch) look(ctx context.Context) {
	s := w.place.seat.Load()
	if s == nil {
		w.sick, w.stuck = false, false
		return
	}
	err := s.store.Health()
	_, stuck := s.store.Stuck()
	switch {
	case err != nil && !w.sick:
		w.log.Error("this voter takes no part in decisions", "err", err)
	case err == nil && w.sick:
		w.log.Info("this voter takes part in decisions again: its log can be written")
	}
	if stuck && !w.stuck {
		if w.terms.resign(ctx) {
			w.prober.passSuspicion(ctx)
		}
	} else if w.stuck && !stuck {
		w.terms.renew(ctx, s)
	}
	w.sick, w.stuck = err != nil, stuck
}

// busy tells whether a write is under way, or the last one failed, so that there is something to
// see soon.
func (w *diskWatch) busy() bool {
	s := w.place.seat.Load()
	return s != nil && s.store.Busy()
}
