package p2p

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2pquic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/quic-go/quic-go"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/strain"
)

// The host is assembled from libp2p's parts and not by its top-level package: that would link
// WebRTC, WebTransport, WebSocket and a dependency injector, megabytes that a peer never uses.

const (
	tcpFirst  = 250 * time.Millisecond // QUIC is dialled so much later than TCP: the end of a process is seen at once on TCP
	relayLast = 500 * time.Millisecond // and relays so much later than any direct address
	dyingTime = 50 * time.Millisecond  // between the first and the last thing that a dying process loses
	dialTries = 5                      // dials of an address that closes them before they stand: a second and a half, all together
)

// transports gives the swarm TCP and QUIC, and returns what relayed connections are upgraded with.
// TLS is offered before Noise, which those of a version before it know alone: it costs less
// (docs/adr/0024-tls-before-noise.md).
func (h *Host) transports() (upgrade transport.Upgrader, err error) {
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	first, err := newTLS(h.cfg.Key)
	if err != nil {
		return nil, err
	}
	second, err := noise.New(noise.ID, h.cfg.Key, muxers)
	if err != nil {
		return nil, err
	}
	plain, err := upgrader.New([]sec.SecureTransport{first, second}, muxers, nil, h.limits, h.gate, upgrader.WithAcceptTimeout(handshakeTime))
	if err != nil {
		return nil, err
	}
	upgrade = doorUpgrader{plain, h.limits, h.gate, h.line}
	t, err := tcp.NewTCPTransport(upgrade, h.limits, nil, tcp.DisableReuseport(), tcp.WithConnectionTimeout(searchTime), tcp.WithDialerForAddr(h.greetings.dialer))
	if err != nil {
		return nil, err
	}
	if h.cfg.Sockets != nil {
		return upgrade, h.sw.AddTransport(&tcpTransport{&socketTransport{t, upgrade, h.limits, h.cfg.Sockets}, &h.refusals, &h.greetings})
	}
	if err := h.sw.AddTransport(&tcpTransport{t, &h.refusals, &h.greetings}); err != nil {
		return nil, err
	}
	if h.quic, err = h.quicManager(); err != nil {
		return nil, err
	}
	q, err := libp2pquic.NewTransport(h.cfg.Key, h.quic, nil, h.gate, h.limits)
	if err != nil {
		return nil, err
	}
	return upgrade, h.sw.AddTransport(&quicTransport{q, &h.refusals, &h.greetings})
}

func (h *Host) quicManager() (*quicreuse.ConnManager, error) {
	raw, err := h.cfg.Key.Raw()
	if err != nil {
		return nil, err
	}
	var reset quic.StatelessResetKey
	var token quic.TokenGeneratorKey
	for label, to := range map[string][]byte{"covey quic reset": reset[:], "covey quic token": token[:]} {
		k, err := hkdf.Key(sha256.New, raw, nil, label, len(to))
		if err != nil {
			return nil, err
		}
		copy(to, k)
	}
	listen := func(network string, at *net.UDPAddr) (net.PacketConn, error) {
		c, err := net.ListenUDP(network, at)
		switch {
		case err != nil:
			return nil, err
		case h.line == nil:
			return c, nil
		}
		return h.line.UDP(c), nil
	}
	return quicreuse.NewConnManager(reset, token,
		quicreuse.OverrideListenUDP(listen),
		quicreuse.ConnContext(func(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
			addr, err := quicreuse.ToQuicMultiaddr(info.RemoteAddr, quic.Version1)
			if err != nil {
				addr = nil // the limits decide without it
			}
			scope, err := h.limits.OpenConnection(network.DirInbound, false, addr)
			if err != nil {
				return ctx, err
			}
			context.AfterFunc(ctx, scope.Done)
			return network.WithConnManagementScope(ctx, scope), nil
		}),
		quicreuse.VerifySourceAddress(func(a net.Addr) bool { return h.limits.VerifySourceAddress(a) }),
	)
}

// rankDials is the order in which a peer's addresses are dialled. In a process that gets too little
// time TCP's handshake takes long, and a second one at its side would cost as much again: QUIC
// waits longer there.
func rankDials(addrs []ma.Multiaddr) []network.AddrDelay {
	if strain.Recent() {
		return rank(addrs, strain.Most*tcpFirst)
	}
	return rank(addrs, tcpFirst)
}

// rank puts every direct TCP address first, QUIC behind it, relays last.
func rank(addrs []ma.Multiaddr, quicAfter time.Duration) []network.AddrDelay {
	var direct, tcps bool
	for _, a := range addrs {
		direct = direct || !isRelay(a)
		tcps = tcps || !isRelay(a) && !isQUIC(a)
	}
	out := make([]network.AddrDelay, 0, len(addrs))
	for _, a := range addrs {
		d := network.AddrDelay{Addr: a}
		switch {
		case isRelay(a) && direct:
			d.Delay = relayLast - tcpFirst + quicAfter
		case isQUIC(a) && tcps:
			d.Delay = quicAfter
		}
		out = append(out, d)
	}
	return out
}

// updatingTransport is what libp2p's TCP can.
type updatingTransport interface {
	transport.Transport
	transport.DialUpdater
}

type tcpTransport struct {
	updatingTransport
	seen  *refusals
	under *greetings
}

func (t *tcpTransport) Dial(ctx context.Context, a ma.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	return t.DialWithUpdates(ctx, a, p, nil)
}

func (t *tcpTransport) DialWithUpdates(ctx context.Context, a ma.Multiaddr, p peer.ID, up chan<- transport.DialUpdate) (transport.CapableConn, error) {
	c, err := t.dial(ctx, a, p, up)
	// A dying process loses its connections a moment before its ports, and who dials at once is
	// reset instead of refused; QUIC would then wait in vain, and everybody who dials that peer
	// with it. Ask once more. One that has too many on its connLimits closes connections, too: ask
	// again, later each time.
	for try := 0; err != nil && !errors.Is(err, syscall.ECONNREFUSED) && (try == 0 || try < dialTries && closedOnUs(err)); try++ {
		wait := dyingTime << try
		if try > 0 {
			wait += rand.N(wait)
		}
		if pause.For(ctx, wait) != nil {
			return c, err
		}
		c, err = t.dial(ctx, a, p, up)
	}
	t.seen.note(p, a, err)
	return c, err
}

func (t *tcpTransport) dial(ctx context.Context, a ma.Multiaddr, p peer.ID, up chan<- transport.DialUpdate) (transport.CapableConn, error) {
	ctx, end := t.under.begin(ctx, a, p)
	defer end()
	return t.updatingTransport.DialWithUpdates(ctx, a, p, up)
}

// closedOnUs tells whether somebody listens and ended the connection before it stood.
func closedOnUs(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

type quicTransport struct {
	transport.Transport
	seen  *refusals
	under *greetings
}

func (t *quicTransport) Dial(ctx context.Context, a ma.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	if simultaneous, _, _ := network.GetSimultaneousConnect(ctx); !simultaneous && t.seen.fresh(a) {
		return nil, fmt.Errorf("dial %s: %w", a, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	} else if !simultaneous {
		if err := t.under.wait(ctx, a); err != nil {
			return nil, err
		}
	}
	return t.Transport.Dial(ctx, a, p)
}

// Close passes on what embedding an interface hides.
func (t *quicTransport) Close() error {
	if c, ok := t.Transport.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// greetings are TCP dials that somebody has taken up: the handshake goes on. QUIC to the same place
// waits for their outcome. Otherwise machines with much to do, where a handshake takes longer than
// QUIC's head start for TCP, would make two of each.
type greetings struct {
	distances *distances

	mu   sync.Mutex
	with map[netip.AddrPort]*greeting
}

// greeting is one dial over TCP; its tracker's lock guards it.
type greeting struct {
	all   *greetings
	peer  peer.ID
	to    netip.AddrPort
	ended chan struct{}
}

type greetingKey struct{}

// begin tracks a dial. The returned function ends it.
func (g *greetings) begin(ctx context.Context, a ma.Multiaddr, p peer.ID) (context.Context, func()) {
	to, ok := hostAndPort(a)
	if !ok {
		return ctx, func() {}
	}
	one := &greeting{all: g, peer: p, to: to, ended: make(chan struct{})}
	return context.WithValue(ctx, greetingKey{}, one), one.end
}

// taken is called when the connection stands, which took a round trip.
func (o *greeting) taken(trip time.Duration) {
	o.all.distances.note(o.peer, trip)
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	if o.all.with == nil {
		o.all.with = map[netip.AddrPort]*greeting{}
	}
	o.all.with[o.to] = o
}

func (o *greeting) end() {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	if o.all.with[o.to] == o {
		delete(o.all.with, o.to)
	}
	close(o.ended)
}

// toward tells whether a handshake over TCP is under way to one of the addresses.
func (g *greetings) toward(addrs []ma.Multiaddr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.with) > 0 && slices.ContainsFunc(addrs, func(a ma.Multiaddr) bool {
		to, ok := hostAndPort(a)
		return ok && g.with[to] != nil
	})
}

// wait returns when no handshake over TCP is under way to where a leads, or with ctx.
func (g *greetings) wait(ctx context.Context, a ma.Multiaddr) error {
	at, _ := hostAndPort(a)
	g.mu.Lock()
	o := g.with[at]
	g.mu.Unlock()
	if o == nil {
		return nil
	}
	select {
	case <-o.ended:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dialer is the machine's, and tells the greeting of a dial when somebody takes it up.
func (g *greetings) dialer(ma.Multiaddr) (tcp.ContextDialer, error) { return greetingDialer{}, nil }

type greetingDialer struct{}

// DialContext implements tcp.ContextDialer.
func (greetingDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	began := time.Now()
	c, err := redial(ctx, func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, network, address) })
	if o, ok := ctx.Value(greetingKey{}).(*greeting); ok && err == nil {
		o.taken(time.Since(began))
	}
	return c, err
}
