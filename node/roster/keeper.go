// Package roster keeps the roster, and so the gate in front of every handler, in step with the
// ledger.
//
//	k := roster.New(roster.Config{…})
//	k.Trust(entries…)          // an applied entry changed who is a member
//	go k.Run(ctx, changed)     // calls changed whenever the gate must look again, and puts right what was never decided
//
// It admits nobody: that is decided in the ledger. Entries that peers show are believed on a
// signature for a moment only.
package roster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Config is what a Sync joins.
type Config struct {
	Self   taskstate.PeerID
	Left   func() bool // this peer's membership ended by its own `peer leave`
	Roster *admission.Roster
	Ledger func() *quorum.Node     // nil before it is open
	Net    admission.Net           // shows this peer's entry to others
	Note   func(peer, what string) // hears what no honest peer sends
	Log    *slog.Logger

	// NotAdmitted gets the peers that turned this one away, each time; nil: nobody says. Run shows
	// them its entry.
	NotAdmitted *mailbox.Box[taskstate.PeerID]
}

// Sync keeps one peer's roster.
type Sync struct {
	cfg   Config
	moved wake.Signal // the gate must look again
	shows *shows

	unkept bool // the last try to write failed, and was told; Run's alone
}

// New makes a Sync.
func New(cfg Config) *Sync {
	return &Sync{cfg: cfg, moved: wake.New(), shows: newShows(cfg.NotAdmitted)}
}

// Run calls changed after the roster changed, off the goroutine that feeds the replica, and settles
// what differs from the ledger, until ctx ends.
func (k *Sync) Run(ctx context.Context, changed func()) error {
	again := time.NewTimer(settleFirst)
	defer again.Stop()
	defer k.flush()
	var showing sync.WaitGroup
	defer showing.Wait()
	settle := Settling{}
	var late <-chan time.Time // when what moved is looked at and kept
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.moved:
			changed()
			if late == nil {
				late = time.After(flushDelay)
			}
		case <-late:
			late = nil
			if !k.flush() {
				late = time.After(flushDelay)
			}
			settle.Look(k, again)
		case <-again.C:
			settle.Look(k, again)
		case <-k.shows.heard.News():
			for _, peer := range k.shows.due(time.Now()) {
				showing.Go(func() { k.Show(ctx, peer) })
			}
		}
	}
}

// flushDelay is how long changes of the roster gather before they are written: many peers that come
// at once are few writes.
const flushDelay = time.Second

// flush writes what was learnt and tells whether that worked. A disk may be full for hours: it
// warns of the first failure of many.
func (k *Sync) flush() bool {
	err := k.cfg.Roster.Flush()
	if err != nil && !k.unkept {
		k.cfg.Log.Warn("roster not kept; it is tried again", "err", err)
	}
	k.unkept = err != nil
	return !k.unkept
}

// InSync tells whether this peer's replica of the ledger is current.
func (k *Sync) InSync() bool {
	l := k.cfg.Ledger()
	if l == nil {
		return false
	}
	ok, _ := l.InSync()
	return ok
}

// AppliedUpTo is up to where this peer has applied the ledger.
func (k *Sync) AppliedUpTo() (generation, index uint64) {
	l := k.cfg.Ledger()
	if l == nil {
		return 0, 0
	}
	return l.Generation(), l.Replica().Applied()
}

// Trust keeps the roster, and so the gate, in step with the ledger. A peer that came back after it
// left reads its former membership and the end of that there: neither counts against the one that
// followed. If that was never decided, Look finds out.
func (k *Sync) Trust(entries ...admission.Entry) {
	own, _ := k.cfg.Roster.Get(k.cfg.Self)
	k.trust(slices.DeleteFunc(slices.Clone(entries), func(e admission.Entry) bool {
		return e.Peer == k.cfg.Self && e.At < own.At
	}))
}

func (k *Sync) trust(entries []admission.Entry) {
	if err := k.cfg.Roster.Trust(entries...); err != nil {
		k.cfg.Log.Warn("roster not kept", "err", err)
	}
	k.Moved()
}

// TrustLedger brings the roster level with the replica: after a snapshot, and at the start, when
// entries were applied before anybody listened.
func (k *Sync) TrustLedger() {
	var all []admission.Entry
	k.cfg.Ledger().Replica().Read(func(s *ledger.State) {
		for m := range s.Members() {
			all = append(all, m.Entry)
		}
	})
	k.Trust(all...)
}

// MayVote tells whether the roster has a peer with the role voter.
func (k *Sync) MayVote(peer taskstate.PeerID) bool {
	e, ok := k.cfg.Roster.Get(peer)
	return ok && e.Has(admission.Voter)
}

// Show presents this peer's roster entry to one that refused it, and tells whether it admits us
// now. If this peer was removed, the roster has the proof afterwards.
func (k *Sync) Show(ctx context.Context, peer taskstate.PeerID) bool {
	err := admission.Show(ctx, k.cfg.Net, peer, k.cfg.Roster)
	if err != nil {
		k.cfg.Log.Debug("not admitted", "by", peer, "err", err)
	}
	k.shows.shown(peer, time.Now(), err)
	k.Moved()
	return err == nil
}

// Moved has the roster looked at again, off the goroutine that calls.
func (k *Sync) Moved() { k.moved.Set() }

// Removed tells whether this peer's own membership has ended.
func (k *Sync) Removed() bool {
	e, ok := k.cfg.Roster.Get(k.cfg.Self)
	return ok && e.Removed
}

// ErrRemoved says what became of this peer's membership.
func (k *Sync) ErrRemoved() error {
	cluster := k.cfg.Roster.Cluster()
	if k.cfg.Left() {
		return api.Errorf(api.Refused, "this peer left cluster %s; to come back, type `peer up` with --join TICKET, a new one that `peer ticket` at another peer makes", cluster)
	}
	e, _ := k.cfg.Roster.Get(k.cfg.Self)
	return api.Errorf(api.Refused, "this peer was removed from cluster %s at %s; to join as a new peer, type `peer up --new-identity --join TICKET` with what `peer ticket` at another peer makes, or use a fresh data folder (--data DIR)",
		cluster, time.UnixMilli(e.At).Format(time.DateTime+" MST"))
}
