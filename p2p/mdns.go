package p2p

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/zeroconf/v2"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/coveyproject/covey/internal/pause"
)

const (
	mdnsService = "_covey._tcp"
	mdnsDomain  = "local"
	mdnsAddrs   = 6 // taken, at most
)

// startMDNS tells the local networks that we are there, and listens for others, on real interfaces
// only. That it cannot is not an error: there may be no multicast here. Each network is told the
// addresses of its own interface, which anybody there could dial anyway, and nothing of others: the
// records of addresses are made for the interface they go out on.
func (h *Host) startMDNS() error {
	ifs := realInterfaces()
	switch {
	case !h.cfg.MDNS:
		h.lan.off = "it was told not to look for others there"
	case h.doors.onlyLoopback():
		h.lan.off = "it listens on this machine only"
	case len(ifs) == 0:
		h.lan.wrong = "this machine has no network with multicast"
	}
	if h.lan.off != "" || h.lan.wrong != "" {
		return nil
	}
	if h.cfg.OnFound != nil {
		n := neighbours{h.life.ctx, ifs, h.log, func(id string, addrs []string) {
			if id != h.Self() {
				h.lan.hear(id)
				h.cfg.OnFound(h, id, addrs)
			}
		}}
		h.life.spawn(n.browse)
	}
	if ifs = h.doors.on(ifs); len(ifs) == 0 {
		h.lan.wrong = "it listens on no network with multicast"
		return nil
	}
	// The instance name is public to the whole network segment: a part of the peer id says nothing
	// more than its records do.
	name := "covey-" + h.id.String()[len(h.id.String())-12:]
	s, err := zeroconf.RegisterProxy(name, mdnsService, mdnsDomain, h.Port(), name, nil, []string{"id=" + h.Self()}, ifs, zeroconf.TTL(120))
	if err != nil {
		h.log.Warn("this peer cannot be found on the local network by itself (mDNS): use a ticket or an address", "err", err)
		h.lan.wrong = err.Error()
		return nil
	}
	h.undo = append(h.undo, closer(s.Shutdown))
	return nil
}

// lan is what came of mDNS. The texts do not change when the host has started.
type lan struct {
	off   string // why it is not wanted
	wrong string // why others do not hear of us

	mu    sync.Mutex
	heard map[string]bool // peers that were, also such as are no members yet: each is told of once
}

// mostHeard bounds how many peers are noted: anybody on a network can tell of many.
const mostHeard = 1024

// LAN is what comes of mDNS: why there is none as was wished, why others do not hear of this peer,
// and how many members it has heard of since its start.
type LAN struct {
	Off, Wrong string
	Heard      int
}

// LAN tells how mDNS goes.
func (h *Host) LAN() LAN {
	h.lan.mu.Lock()
	defer h.lan.mu.Unlock()
	out := LAN{Off: h.lan.off, Wrong: h.lan.wrong}
	for id := range h.lan.heard {
		if h.cfg.Admitted(id) {
			out.Heard++
		}
	}
	return out
}

// hear notes a peer that was heard.
func (l *lan) hear(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard == nil {
		l.heard = map[string]bool{}
	}
	if len(l.heard) < mostHeard {
		l.heard[id] = true
	}
}

// Bridges are those of Addrs that belong to bridges and tunnels which only this machine sees.
func (h *Host) Bridges() (out []string) {
	virtual := virtualIPs()
	for _, a := range h.Addrs() {
		ip, _ := IPAndPort(a)
		if at, ok := netip.AddrFromSlice(ip); ok && virtual(at.Unmap()) {
			out = append(out, a)
		}
	}
	return out
}

type closer func()

func (c closer) Close() error { c(); return nil }

// on keeps the interfaces on which somebody could reach us.
func (d *listeners) on(ifs []net.Interface) []net.Interface {
	own := map[netip.Addr]bool{}
	for _, a := range d.sw.ListenAddresses() {
		if ip, err := manet.ToIP(a); err == nil && !isRelay(a) {
			at, _ := netip.AddrFromSlice(ip)
			if at.IsUnspecified() {
				return ifs
			}
			own[at.Unmap()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(ifs), func(i net.Interface) bool {
		as, err := i.Addrs()
		return err != nil || !slices.ContainsFunc(as, func(a net.Addr) bool {
			p, err := netip.ParsePrefix(a.String())
			return err == nil && own[p.Addr().Unmap()]
		})
	})
}

// neighbours listens for peers on the local networks.
type neighbours struct {
	ctx   context.Context
	ifs   []net.Interface
	log   *slog.Logger
	found func(id string, addrs []string)
}

// browse reports what others tell until the host closes.
func (n neighbours) browse() {
	for n.ctx.Err() == nil {
		found := make(chan *zeroconf.ServiceEntry, 16)
		done := make(chan error, 1)
		go func() { done <- zeroconf.Browse(n.ctx, mdnsService, mdnsDomain, found, zeroconf.SelectIfaces(n.ifs)) }()
		if err := n.report(found, done); err != nil {
			n.log.Debug("mDNS", "err", err)
			_ = pause.For(n.ctx, time.Minute)
		}
	}
}

// report passes on entries until Browse has ended.
func (n neighbours) report(found <-chan *zeroconf.ServiceEntry, done <-chan error) error {
	for {
		select {
		case e, ok := <-found:
			if !ok { // closed at its end; nil never fires
				found = nil
				continue
			}
			if id, addrs, err := parseMDNS(e.Text, e.Port, append(e.AddrIPv4, e.AddrIPv6...)); err == nil && n.ctx.Err() == nil {
				n.found(id, addrs)
			}
		case err := <-done:
			return err
		}
	}
}

// parseMDNS reads records that anybody on the network may have written.
func parseMDNS(text []string, port int, ips []net.IP) (id string, addrs []string, err error) {
	for _, s := range text {
		if key, v, _ := strings.Cut(s, "="); key == "id" {
			p, err := peer.Decode(v)
			if err != nil {
				return "", nil, fmt.Errorf("mDNS: %q is not a peer id", v)
			}
			id = p.String()
		}
	}
	for _, ip := range ips {
		a, ok := netip.AddrFromSlice(ip)
		if a = a.Unmap(); !ok || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || len(addrs) >= mdnsAddrs {
			continue
		}
		addrs = append(addrs, fmt.Sprintf("/%s/tcp/%d", ipPart(a), port), fmt.Sprintf("/%s/udp/%d/quic-v1", ipPart(a), port))
	}
	if id == "" || len(addrs) == 0 || port < 1 || port > 65535 {
		return "", nil, fmt.Errorf("mDNS: a record without id, address or port")
	}
	return id, addrs, nil
}

// realInterfaces can multicast and lead to other machines.
func realInterfaces() []net.Interface {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var out []net.Interface
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagMulticast != 0 && i.Flags&(net.FlagLoopback|net.FlagPointToPoint) == 0 && !isVirtual(i.Name) {
			out = append(out, i)
		}
	}
	return out
}
