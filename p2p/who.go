package p2p

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"
	manet "github.com/multiformats/go-multiaddr/net"
	mss "github.com/multiformats/go-multistream"

	"github.com/coveyproject/covey/internal/strain"
)

// Who asks which peer lives at an address (a TCP multiaddr, names allowed): for a bootstrap address
// without a peer id. The answer is proven by the peer's key, but not that it is the peer one
// wanted.
func (h *Host) Who(ctx context.Context, addr string) (string, error) {
	ctx, cancel := strain.Timeout(ctx, dialTimeout)
	defer cancel()
	m, err := ma.NewMultiaddr(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", addr, err)
	}
	list, err := madns.DefaultResolver.Resolve(ctx, m)
	if err != nil {
		return "", fmt.Errorf("%s: %w", addr, err)
	}
	err = fmt.Errorf("%s: no TCP address: give host:port", addr)
	for _, a := range list {
		var id string
		if isQUIC(a) || isRelay(a) {
			continue
		}
		if id, err = h.who(ctx, a); err == nil {
			return id, nil
		}
	}
	return "", fmt.Errorf("no peer answers at %s: %w", addr, err)
}

// dialTCP opens a connection with nothing on it.
func (h *Host) dialTCP(ctx context.Context, a ma.Multiaddr) (net.Conn, error) {
	if h.cfg.Sockets == nil {
		var d manet.Dialer
		return d.DialContext(ctx, a)
	}
	return dialOn(ctx, h.cfg.Sockets, a)
}

// Listens tells whether somebody takes up TCP connections at a multiaddr.
func (h *Host) Listens(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for _, a := range parseAddrs([]string{addr}) {
		if isQUIC(a) || isRelay(a) {
			continue
		}
		if c, err := h.dialTCP(ctx, a); err == nil {
			c.Close()
			return true
		}
	}
	return false
}

// who goes as far as the Noise handshake.
func (h *Host) who(ctx context.Context, a ma.Multiaddr) (string, error) {
	c, err := h.dialTCP(ctx, a)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })()
	if err := mss.SelectProtoOrFail(protocol.ID(noise.ID), c); err != nil {
		return "", err
	}
	n, err := noise.New(noise.ID, h.cfg.Key, nil)
	if err != nil {
		return "", err
	}
	session, err := n.WithSessionOptions(noise.DisablePeerIDCheck())
	if err != nil {
		return "", err
	}
	s, err := session.SecureOutbound(ctx, c, "")
	if err != nil {
		return "", err
	}
	return s.RemotePeer().String(), nil
}
