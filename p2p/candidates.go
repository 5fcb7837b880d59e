package p2p

import (
	"cmp"
	"slices"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// relayCandidates are admitted peers that we have a direct connection to which we opened ourselves:
// others can, too. Best first.
func (r *relays) relayCandidates() []peer.ID {
	var out []peer.ID
	public := map[peer.ID]int{}
	for _, p := range r.sw.Peers() {
		c := r.directTo(p)
		if c == nil || c.Stat().Direction != network.DirOutbound || !r.gated.gate.admits(p) {
			continue
		}
		if manet.IsPublicAddr(c.RemoteMultiaddr()) {
			public[p] = -1
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b peer.ID) int {
		return cmp.Or(cmp.Compare(public[a], public[b]), cmp.Compare(a, b))
	})
	return out
}

// directTo is a direct connection to p, one we opened if there is one, or nil.
func (r *relays) directTo(p peer.ID) (found network.Conn) {
	for _, c := range r.sw.ConnsToPeer(p) {
		if isRelay(c.RemoteMultiaddr()) || c.IsClosed() {
			continue
		}
		if found == nil || c.Stat().Direction == network.DirOutbound {
			found = c
		}
	}
	return found
}

// addrsOfRelay are addresses others may find the relay at: the one that worked for us, then what it
// told.
func (r *relays) addrsOfRelay(p peer.ID) []ma.Multiaddr {
	var list []ma.Multiaddr
	if c := r.directTo(p); c != nil && c.Stat().Direction == network.DirOutbound {
		list = append(list, c.RemoteMultiaddr())
	}
	for _, a := range orderAddrs(r.sw.Peerstore().Addrs(p), nil, nil) {
		if !isRelay(a) && !manet.IsIPLoopback(a) {
			list = append(list, a)
		}
	}
	seen := map[string]bool{}
	list = slices.DeleteFunc(list, func(a ma.Multiaddr) bool {
		dup := seen[string(a.Bytes())]
		seen[string(a.Bytes())] = true
		return dup
	})
	return list[:min(len(list), relayAddrs)]
}
