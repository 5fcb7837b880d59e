package node

import (
	"context"
	"errors"
	"time"

	"covey/node/api"
	"covey/p2p"
	"covey/p2p/admission"
)

// introducer is the network as membership uses it to make contact. A peer that does not let this one in may only not have heard of
// its admission yet, or know of its removal: this one shows its entry, and learns.
type introducer struct {
	*p2p.Host
	n *Node
}

// Connect connects, after an introduction if one is needed.
func (i introducer) Connect(ctx context.Context, peer string, addrs []string) error {
	err := i.Host.Connect(ctx, peer, addrs)
	if !errors.Is(err, p2p.ErrNotAdmitted) {
		return err
	}
	if shown := admission.Show(ctx, i.Host, peer, i.n.roster); shown != nil {
		i.n.log.Debug("introduced in vain", "peer", peer, "err", shown)
		i.n.checkExpelled()
		return err
	}
	return i.Host.Connect(ctx, peer, addrs)
}

// checkExpelled ends this peer's run if its own roster says that it was removed: others do not let it in any more.
func (n *Node) checkExpelled() {
	if e, ok := n.roster.Get(n.self); ok && e.Removed {
		n.expelOnce.Do(func() { close(n.expelled) })
	}
}

// errExpelled says that this peer was removed, and when.
func (n *Node) errExpelled() error {
	e, ok := n.roster.Get(n.self)
	if !ok || !e.Removed {
		return nil
	}
	return api.Errorf(api.Refused, "this peer was removed from cluster %s at %s; to join again use a fresh data folder (--data DIR) and a ticket",
		n.roster.Cluster(), time.UnixMilli(e.At).Format(time.DateTime))
}

// depart notes in the own roster that this peer has left, so that its next start says so.
func (n *Node) depart() {
	e, ok := n.roster.Get(n.self)
	if !ok || e.Removed {
		return
	}
	e.Removed, e.At, e.Sig = true, max(now(), e.At+1), nil
	n.trust(e)
}
