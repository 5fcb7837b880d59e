package node

import (
	"context"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/metrics"
	"github.com/coveyproject/covey/node/readers"
	"github.com/coveyproject/covey/node/roster"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// entryObservers is who hears of what the ledger says, and in which order: the roster and the
// digests, the events, the table, who may read what, and last who waits for this peer to have come
// so far. All of it is on the goroutine that feeds the replica, and nothing waits.
type entryObservers struct {
	self     taskstate.PeerID
	replica  *ledger.Replica
	keeper   *roster.Sync
	store    *digest.Store
	statuses *statuses
	given    *readers.Given
	readers  *readers.Readers
	view     *view.View
	metrics  *metrics.Meter
	rights   wake.Signal // set when somebody's roles may be others, or a key void
}

// observe has it hear, until the returned functions are called.
func (h *entryObservers) observe() []func() {
	return []func(){
		h.replica.Observe(h.decided), h.replica.Observe(h.statuses.keepUp),
		h.replica.Observe(h.metrics.Decided), h.replica.Observe(h.given.Hear), h.replica.Observe(h.readers.Hear),
		h.replica.Observe(func(ev ledger.Event) { h.view.Applied(); h.statuses.moved(); h.changed(ev) }),
	}
}

// missed makes up for what the replica applied before it was observed: a voter that starts again
// applies its log meanwhile, and for long nothing may follow.
func (h *entryObservers) missed() {
	all := ledger.Event{Reset: true}
	h.keepLives(all)
	h.given.Hear(all)
	h.readers.Hear(all)
	h.view.Applied()
	h.statuses.moved()
	h.changed(all)
}

// changed notes that what keys may do here may be another thing now.
func (h *entryObservers) changed(ev ledger.Event) {
	rights := ev.Reset
	for i := range ev.Entry.Commands {
		c := &ev.Entry.Commands[i]
		rights = rights || c.Found != nil || c.Admit != nil || c.Remove != nil || c.Depart != nil || c.Revoke != nil
	}
	if rights {
		h.rights.Set()
	}
}

// reviewEvery is how often is looked whether this peer's copy of the ledger is current.
const reviewEvery = 100 * time.Millisecond

// review has what runs looked at anew when keys may do something else, until ctx ends: not before
// this peer's copy of the ledger is current, as half of one knows few roles.
func (h *entryObservers) review(ctx context.Context, current func() bool, look func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.rights:
		}
		for !current() {
			if pause.For(ctx, reviewEvery) != nil {
				return nil
			}
		}
		look()
	}
}

// decided folds an applied ledger entry into events, before the table forgets what the ledger now
// knows for good.
func (h *entryObservers) decided(ev ledger.Event) {
	h.keepLives(ev)
	if ev.Reset {
		h.keeper.TrustLedger()
		h.view.Events.Decided(ev)
		return
	}
	h.members(ev)
	h.statuses.order.Lock()
	defer h.statuses.order.Unlock()
	h.view.Events.Decided(ev)
}

// members keeps roster and digests in step with who is a member.
func (h *entryObservers) members(ev ledger.Event) {
	var entries []admission.Entry // in one step: of many newcomers in one entry each would cost a file
	for i := range ev.Entry.Commands {
		c := &ev.Entry.Commands[i]
		if ev.Refused(i) {
			continue
		}
		switch {
		case c.Found != nil, c.Admit != nil:
			if m := ev.Results[i].Member; m != nil { // not an entry that was asked for again
				entries = append(entries, m.Entry)
			}
		case c.Remove != nil:
			if c.Remove.Entry != nil {
				entries = append(entries, *c.Remove.Entry)
			}
			h.store.Forget(c.Remove.Peer)
			h.statuses.table.ForgetAuthor(c.Remove.Peer)
		}
	}
	if len(entries) > 0 {
		h.keeper.Trust(entries...)
	}
}

// keepLives tells the digests whose statuses matter: those of the incarnations that the ledger
// counts. Of itself this peer knows better than a ledger that has not come here yet.
func (h *entryObservers) keepLives(ev ledger.Event) {
	h.replica.Lives(ev, func(peer taskstate.PeerID, inc taskstate.Incarnation) {
		if peer != h.self {
			h.store.Current(peer, string(inc))
		}
	})
}
