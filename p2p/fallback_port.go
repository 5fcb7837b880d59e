package p2p

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Peers that all come back on other ports at once would not find each other: what each remembers of
// the others is of before. So a peer that others know and that listens elsewhere than last time
// keeps a fallback port besides: on a port that follows from its id, where it was. Who finds nobody
// at the addresses it remembers asks there.

const (
	fallbackCount = 3     // ports that follow from an id; the first that is free is the fallback port
	fallbackIPs   = 4     // machines at which an absent peer's fallback listeners are tried
	sideFirst     = 20000 // their range: below the ports that systems hand out
	sideLast      = 32000
)

// fallbackPorts follow from a peer's id.
func fallbackPorts(p peer.ID) (ports [fallbackCount]int) {
	sum := sha256.Sum256(append([]byte("covey side door\x00"), p...))
	for i := range ports {
		ports[i] = sideFirst + int(binary.BigEndian.Uint32(sum[4*i:])%(sideLast-sideFirst))
	}
	return ports
}

// openFallback listens on a fallback port with TCP, on the addresses listened on. That none is free
// is no error: it is for the worst case only.
func (d *listeners) openFallback(where []listenAddr) {
	for _, port := range fallbackPorts(d.id) {
		var bound []ma.Multiaddr
		var err error
		for _, w := range where {
			_, as, e := d.bind(w.ip, port, "tcp/%d", ma.P_TCP)
			bound = append(bound, as...)
			if e != nil && !w.optional {
				err = e
			}
		}
		if err == nil && len(bound) > 0 {
			d.fallback = port
			return
		}
		d.sw.ListenClose(bound...)
	}
	d.log.Debug("no fallback port is free")
}

// isFallback tells whether an address is the fallback port's: it is not told to others, who know
// how to find it.
func (d *listeners) isFallback(a ma.Multiaddr) bool {
	v, err := a.ValueForProtocol(ma.P_TCP)
	return err == nil && d.fallback > 0 && v == fmt.Sprint(d.fallback) && !isRelay(a)
}

// fallbackAddrs are the fallback listeners of a peer that was at these addresses.
func fallbackAddrs(p peer.ID, addrs []string) (out []ma.Multiaddr) {
	var ips []netip.Addr
	for _, a := range parseAddrs(addrs) {
		ip, err := manet.ToIP(a)
		if err != nil || isRelay(a) || len(ips) >= fallbackIPs {
			continue
		}
		if at, _ := netip.AddrFromSlice(ip); !slices.Contains(ips, at.Unmap()) {
			ips = append(ips, at.Unmap())
		}
	}
	for _, ip := range ips {
		for _, port := range fallbackPorts(p) {
			if a, err := ma.NewMultiaddr(fmt.Sprintf("/%s/tcp/%d", ipPart(ip), port)); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}

// Seek is Connect to a peer that is not where it was: at its fallback listeners.
func (h *Host) Seek(ctx context.Context, peerID string, addrs []string) error {
	p, err := peer.Decode(peerID)
	if err != nil || p == h.id {
		return fmt.Errorf("seek: %q is no other peer's id: %w", peerID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	h.sw.Peerstore().AddAddrs(p, fallbackAddrs(p, addrs), dialTimeout) // for this time only
	h.sw.Backoff().Clear(p)
	if err := h.hello(ctx, p); err != nil {
		return fmt.Errorf("seek %s: %w", peerID, err)
	}
	return nil
}
