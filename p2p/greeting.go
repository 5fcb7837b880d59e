package p2p

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// greetings are TCP dials that somebody has taken up: the handshake goes on. QUIC to the same place
// waits for their outcome. Otherwise machines with much to do, where a handshake takes longer than
// QUIC's head start for TCP, would make two of each.
type greetings struct {
	mu   sync.Mutex
	with map[netip.AddrPort]*greeting
}

// greeting is one dial over TCP; its tracker's lock guards it.
type greeting struct {
	all   *greetings
	to    netip.AddrPort
	ended chan struct{}
}

type greetingKey struct{}

// begin tracks a dial. The returned function ends it.
func (g *greetings) begin(ctx context.Context, a ma.Multiaddr) (context.Context, func()) {
	to, ok := hostAndPort(a)
	if !ok {
		return ctx, func() {}
	}
	one := &greeting{all: g, to: to, ended: make(chan struct{})}
	return context.WithValue(ctx, greetingKey{}, one), one.end
}

// taken is called when the connection stands.
func (o *greeting) taken() {
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
	c, err := d.DialContext(ctx, network, address)
	if o, ok := ctx.Value(greetingKey{}).(*greeting); ok && err == nil {
		o.taken()
	}
	return c, err
}
