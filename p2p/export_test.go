package p2p

import "github.com/libp2p/go-libp2p/core/peer"

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
