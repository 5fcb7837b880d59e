package node

import (
	"context"
	"errors"

	"covey/p2p"
)

// dialer is the network as membership dials it: where another peer does not admit this one, it
// shows its roster entry. A newcomer can be faster than the news of its admission, and a removed
// peer learns that it was.
type dialer struct {
	host *p2p.Host
	show func(ctx context.Context, peer string) bool
}

// SetAddrs implements membership.Host.
func (d dialer) SetAddrs(peer string, addrs []string) { d.host.SetAddrs(peer, addrs) }

// Connect implements membership.Host.
func (d dialer) Connect(ctx context.Context, peer string, addrs []string) error {
	err := d.host.Connect(ctx, peer, addrs)
	if errors.Is(err, p2p.ErrNotAdmitted) && d.show(ctx, peer) {
		return d.host.Connect(ctx, peer, addrs)
	}
	direct, relayed := d.host.Connected(peer)
	if err != nil && !direct && !relayed && d.host.Seek(ctx, peer, addrs) == nil { // it moved when we did
		return nil
	}
	return err
}
