package p2p

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Sockets is TCP as a host uses it. The host brings the machine's own; tests bring a network they
// can hurt (memnet.Wires).
type Sockets interface {
	// Listen opens a port; port 0 takes a free one. The listener's and its connections' addresses
	// are *net.TCPAddr.
	Listen(at netip.AddrPort) (net.Listener, error)
	// Dial connects. An error that is syscall.ECONNREFUSED says that nobody listens there.
	Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// dialOn opens a connection to a multiaddr of an IP and a TCP port.
func dialOn(ctx context.Context, s Sockets, a ma.Multiaddr) (manet.Conn, error) {
	to, err := addrPort(a)
	if err != nil {
		return nil, err
	}
	raw, err := s.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	c, err := manet.WrapNetConn(raw)
	if err != nil {
		raw.Close()
	}
	return c, err
}

func addrPort(a ma.Multiaddr) (netip.AddrPort, error) {
	_, address, err := manet.DialArgs(a)
	if err != nil {
		return netip.AddrPort{}, err
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return at, fmt.Errorf("address %s: %w", a, err)
	}
	return at, nil
}

// socketTransport is libp2p's TCP transport on other sockets: what it says about addresses is kept,
// how it listens and dials is not.
type socketTransport struct {
	*tcp.TcpTransport
	upgrade transport.Upgrader
	limits  network.ResourceManager
	sockets Sockets
}

// DialWithUpdates connects and upgrades.
func (t *socketTransport) DialWithUpdates(ctx context.Context, a ma.Multiaddr, p peer.ID, _ chan<- transport.DialUpdate) (transport.CapableConn, error) {
	scope, err := t.limits.OpenConnection(network.DirOutbound, true, a)
	if err != nil {
		return nil, err
	}
	c, err := t.dial(ctx, a, p, scope)
	if err != nil {
		scope.Done()
		return nil, err
	}
	return c, nil
}

func (t *socketTransport) dial(ctx context.Context, a ma.Multiaddr, p peer.ID, scope network.ConnManagementScope) (transport.CapableConn, error) {
	if err := scope.SetPeer(p); err != nil {
		return nil, err
	}
	began := time.Now()
	c, err := redial(ctx, func(ctx context.Context) (manet.Conn, error) { return dialOn(ctx, t.sockets, a) })
	if err != nil {
		return nil, err
	}
	if o, ok := ctx.Value(greetingKey{}).(*greeting); ok {
		o.taken(time.Since(began))
	}
	direction := network.DirOutbound
	if simultaneous, isClient, _ := network.GetSimultaneousConnect(ctx); simultaneous && !isClient {
		direction = network.DirInbound
	}
	return t.upgrade.Upgrade(ctx, t, c, direction, p, scope)
}

// Listen opens a port and upgrades what comes in.
func (t *socketTransport) Listen(at ma.Multiaddr) (transport.Listener, error) {
	where, err := addrPort(at)
	if err != nil {
		return nil, err
	}
	raw, err := t.sockets.Listen(where)
	if err != nil {
		return nil, err
	}
	l, err := manet.WrapNetListener(raw)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return t.upgrade.UpgradeGatedMaListener(t, t.upgrade.GateMaListener(l)), nil
}
