package node

import (
	"covey/dispatch/ledger"
	"covey/node/view"
	"covey/p2p/admission"
	"covey/taskstate"
)

// heed keeps roster and digests in step with the ledger.
func (n *Node) heed(ev ledger.Event) {
	var entries []admission.Entry // in one step: of many newcomers in one entry each would cost a file
	for i := range ev.Entry.Commands {
		c := &ev.Entry.Commands[i]
		if view.Refused(ev, i) {
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
			n.store.Forget(c.Remove.Peer)
			n.table.ForgetAuthor(c.Remove.Peer)
		}
	}
	if len(entries) > 0 {
		n.keeper.Trust(entries...)
	}
}

// keepLives tells the digests whose statuses matter: those of the incarnations that the ledger
// counts. Of itself this peer knows better than a ledger that has not come here yet.
func (n *Node) keepLives(ev ledger.Event) {
	n.replica.Lives(ev, func(peer taskstate.PeerID, inc taskstate.Incarnation) {
		if peer != n.self {
			n.store.Current(peer, string(inc))
		}
	})
}

// decided folds an applied ledger entry into events. It runs on the goroutine that feeds the
// replica, before the table forgets what the ledger now knows for good.
func (n *Node) decided(ev ledger.Event) {
	n.keepLives(ev)
	if ev.Reset {
		n.keeper.TrustLedger()
		n.view.Events.Decided(ev)
		return
	}
	n.heed(ev)
	n.statuses.order.Lock()
	defer n.statuses.order.Unlock()
	n.view.Events.Decided(ev)
}
