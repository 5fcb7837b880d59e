package node

import (
	"context"
	"errors"
	"time"

	"covey/node/api"
	"covey/p2p"
	"covey/p2p/admission"
	"covey/taskstate"
)

// doorman is the network as membership dials it: where another peer does not admit this one, it shows its roster entry. A newcomer
// can be faster than the news of its admission, and a removed peer learns that it was.
type doorman struct{ n *Node }

// SetAddrs implements membership.Host.
func (d doorman) SetAddrs(peer string, addrs []string) { d.n.host.SetAddrs(peer, addrs) }

// Connect implements membership.Host.
func (d doorman) Connect(ctx context.Context, peer string, addrs []string) error {
	err := d.n.host.Connect(ctx, peer, addrs)
	if errors.Is(err, p2p.ErrNotAdmitted) && d.n.show(ctx, peer) {
		return d.n.host.Connect(ctx, peer, addrs)
	}
	if err != nil && !d.n.connected(peer) && d.n.host.Seek(ctx, peer, addrs) == nil { // it moved when we did
		return nil
	}
	return err
}

// show presents this peer's roster entry to one that refused it, and tells whether it admits us now. If this peer was removed, the
// roster has the proof afterwards.
func (n *Node) show(ctx context.Context, peer taskstate.PeerID) bool {
	err := admission.Show(ctx, n.host, peer, n.roster)
	if err != nil {
		n.log.Debug("not admitted", "by", peer, "err", err)
	}
	n.rosterMoved()
	return err == nil
}

func (n *Node) rosterMoved() {
	select {
	case n.rosterChanged <- struct{}{}:
	default:
	}
}

// removed tells whether this peer's own membership has ended.
func (n *Node) removed() bool {
	e, ok := n.roster.Get(n.self)
	return ok && e.Removed
}

// errRemoved says what became of this peer's membership.
func (n *Node) errRemoved() error {
	e, _ := n.roster.Get(n.self)
	return api.Errorf(api.Refused, "this peer was removed from cluster %s at %s; to join again use a fresh data folder (--data DIR) and a ticket",
		n.roster.Cluster(), time.UnixMilli(e.At).Format(time.DateTime+" MST"))
}

// connected tells whether there is a connection to a peer, of any kind.
func (n *Node) connected(peer taskstate.PeerID) bool {
	direct, relayed := n.host.Connected(peer)
	return direct || relayed
}
