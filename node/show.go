package node

import (
	"context"
	"errors"

	"covey/p2p"
	"covey/taskstate"
)

// doorman is the network as membership dials it: where another peer does not admit this one, it
// shows its roster entry. A newcomer can be faster than the news of its admission, and a removed
// peer learns that it was.
type doorman struct{ n *Node }

// SetAddrs implements membership.Host.
func (d doorman) SetAddrs(peer string, addrs []string) { d.n.host.SetAddrs(peer, addrs) }

// Connect implements membership.Host.
func (d doorman) Connect(ctx context.Context, peer string, addrs []string) error {
	err := d.n.host.Connect(ctx, peer, addrs)
	if errors.Is(err, p2p.ErrNotAdmitted) && d.n.keeper.Show(ctx, peer) {
		return d.n.host.Connect(ctx, peer, addrs)
	}
	if err != nil && !d.n.connected(peer) && d.n.host.Seek(ctx, peer, addrs) == nil { // it moved when we did
		return nil
	}
	return err
}

// connected tells whether there is a connection to a peer, of any kind.
func (n *Node) connected(peer taskstate.PeerID) bool {
	direct, relayed := n.host.Connected(peer)
	return direct || relayed
}
