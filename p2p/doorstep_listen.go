package p2p

import (
	"context"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/coveyproject/covey/p2p/line"
)

// The connLimits ends connections that stand in the way of others, so listeners tell it how: TCP's
// from the moment they are accepted, QUIC's when their handshake is over.

// doorUpgrader upgrades what listeners accept over the connLimits.
type doorUpgrader struct {
	transport.Upgrader
	d    *connLimits
	gate *gate
	line *line.Line // what it upgrades passes this line; nil: none
}

// Upgrade implements transport.Upgrader.
func (u doorUpgrader) Upgrade(ctx context.Context, t transport.Transport, c manet.Conn, d network.Direction, p peer.ID, scope network.ConnManagementScope) (transport.CapableConn, error) {
	return u.Upgrader.Upgrade(ctx, t, u.slowed(c), d, p, scope)
}

// slowed puts a connection on the line, unless that carries it already.
func (u doorUpgrader) slowed(c manet.Conn) manet.Conn {
	if u.line == nil || isRelay(c.RemoteMultiaddr()) {
		return c
	}
	return slowConn{u.line.Conn(c), c}
}

// slowConn is a connection on a line; the addresses are the connection's.
type slowConn struct {
	net.Conn
	addrs manet.Conn
}

// LocalMultiaddr implements manet.Conn.
func (c slowConn) LocalMultiaddr() ma.Multiaddr { return c.addrs.LocalMultiaddr() }

// RemoteMultiaddr implements manet.Conn.
func (c slowConn) RemoteMultiaddr() ma.Multiaddr { return c.addrs.RemoteMultiaddr() }

// libp2p sets what follows on what it accepts; a connection that is none of TCP's has nothing to
// set.

// SetLinger says what becomes of bytes that were not sent when it is closed.
func (c slowConn) SetLinger(sec int) error {
	if t, ok := c.addrs.(interface{ SetLinger(sec int) error }); ok {
		return t.SetLinger(sec)
	}
	return nil
}

// SetKeepAlive has the system notice that the other side is gone.
func (c slowConn) SetKeepAlive(on bool) error {
	if t, ok := c.addrs.(interface{ SetKeepAlive(on bool) error }); ok {
		return t.SetKeepAlive(on)
	}
	return nil
}

// SetKeepAlivePeriod says how soon.
func (c slowConn) SetKeepAlivePeriod(d time.Duration) error {
	if t, ok := c.addrs.(interface {
		SetKeepAlivePeriod(d time.Duration) error
	}); ok {
		return t.SetKeepAlivePeriod(d)
	}
	return nil
}

// GateMaListener implements transport.Upgrader.
func (u doorUpgrader) GateMaListener(l manet.Listener) transport.GatedMaListener {
	return doorListener{l, u}
}

// UpgradeListener implements transport.Upgrader.
func (u doorUpgrader) UpgradeListener(t transport.Transport, l manet.Listener) transport.Listener {
	return u.UpgradeGatedMaListener(t, u.GateMaListener(l))
}

type doorListener struct {
	manet.Listener
	u doorUpgrader
}

// Accept implements transport.GatedMaListener. A connection without a place on the connLimits is
// closed, and tries again.
func (l doorListener) Accept() (manet.Conn, network.ConnManagementScope, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, nil, err
		}
		if !l.u.gate.InterceptAccept(c) {
			c.Close()
			continue
		}
		scope, err := l.u.d.OpenConnection(network.DirInbound, true, c.RemoteMultiaddr())
		if err != nil {
			c.Close()
			continue
		}
		scope.(*inbound).closeWith(func() { c.Close() })
		return l.u.slowed(c), scope, nil
	}
}

// quicListener tells the connLimits how to end QUIC connections.
type quicListener struct{ transport.Listener }

// Accept implements transport.Listener.
func (l quicListener) Accept() (transport.CapableConn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if in, ok := c.Scope().(*inbound); ok {
		in.closeWith(func() { c.CloseWithError(network.ConnRateLimited) })
	}
	return c, nil
}

// Listen implements transport.Transport.
func (t *quicTransport) Listen(at ma.Multiaddr) (transport.Listener, error) {
	l, err := t.Transport.Listen(at)
	if err != nil {
		return nil, err
	}
	return quicListener{l}, nil
}
