package p2p

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// TransportsOf names the transports of a's connections to a peer.
func TransportsOf(h *Host, id string) (s string) {
	p, _ := peer.Decode(id)
	for _, c := range h.sw.ConnsToPeer(p) {
		switch {
		case isRelay(c.RemoteMultiaddr()):
			s += "relay"
		case isQUIC(c.RemoteMultiaddr()):
			s += "quic"
		default:
			s += "tcp"
		}
	}
	return s
}

// Searches is how many searches for a connection are under way.
func Searches(h *Host) int {
	h.searches.mu.Lock()
	defer h.searches.mu.Unlock()
	return len(h.searches.under)
}

// Greeted tells whether somebody has taken up a dial over TCP.
func Greeted(h *Host) bool {
	h.greetings.mu.Lock()
	defer h.greetings.mu.Unlock()
	return len(h.greetings.with) > 0
}

// ParseMDNS, ParsePlace, ParseAddrs and OrderAddrs show what outside tests need.
func ParseMDNS(text []string, port int, ips []net.IP) (string, []string, error) {
	return parseMDNS(text, port, ips)
}

func ParsePlace(s string) (listenAddr, error) { return parsePlace(s) }

func ParseAddrs(s []string) (out []string) {
	for _, a := range parseAddrs(s) {
		out = append(out, a.String())
	}
	return out
}

func OrderAddrs(addrs, announced []string, virtual string) (out []string) {
	for _, a := range orderAddrs(parseAddrs(addrs), parseAddrs(announced), func(a netip.Addr) bool { return a.String() == virtual }) {
		out = append(out, a.String())
	}
	return out
}

// Mirror is a mirror without sockets.
type Mirror struct{ m mirror }

func NewMirror() *Mirror {
	m := &Mirror{}
	m.m.draw()
	return m
}

func (m *Mirror) Key() []byte                                  { return m.m.key[:] }
func (m *Mirror) Question(key []byte) []byte                   { return m.m.question(key) }
func (m *Mirror) Reflect(b []byte, from netip.AddrPort) []byte { return m.m.reflect(b, from) }
func (m *Mirror) Read(b []byte) (netip.AddrPort, bool)         { return m.m.read(b) }

// Known are the addresses that h knows of a peer.
func Known(h *Host, id string) (out []string) {
	p, _ := peer.Decode(id)
	for _, a := range h.sw.Peerstore().Addrs(p) {
		out = append(out, a.String())
	}
	return out
}

// Listening is where h listens, fallback listeners included.
func Listening(h *Host) (out []string) {
	for _, a := range h.sw.ListenAddresses() {
		if !isRelay(a) {
			out = append(out, a.String())
		}
	}
	return out
}

// Doubted tells whether h looks at a connection at the moment.
func Doubted(h *Host) (found bool) {
	h.silence.looking.Range(func(_, _ any) bool { found = true; return false })
	return found
}

// Disconnect closes every connection to a peer.
func Disconnect(h *Host, id string) {
	p, _ := peer.Decode(id)
	h.sw.ClosePeer(p)
}

// Seek asks for a connection to a peer as libp2p's own parts do, and waits for the answer.
func Seek(ctx context.Context, h *Host, id string) {
	p, _ := peer.Decode(id)
	_, _ = h.sw.DialPeer(ctx, p)
}

// SecuredBy names what secures a's connections to a peer.
func SecuredBy(h *Host, id string) (s string) {
	p, _ := peer.Decode(id)
	for _, c := range h.sw.ConnsToPeer(p) {
		s += string(c.ConnState().Security) + " " + string(c.ConnState().StreamMultiplexer)
	}
	return s
}

// MirrorOf is where h asks for the mirror of a peer that is connected directly.
func MirrorOf(h *Host, id string) (netip.AddrPort, bool) {
	p, _ := peer.Decode(id)
	return h.relays.mirrorOf(h.relays.directTo(p))
}

// DelaysOf are those of a peer's addresses when QUIC waits so long for TCP.
func DelaysOf(quicAfter time.Duration, addrs ...ma.Multiaddr) (out []time.Duration) {
	for _, a := range rank(addrs, quicAfter) {
		out = append(out, a.Delay)
	}
	return out
}
