package p2p

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// place is one address to listen on, with TCP and QUIC.
type listenAddr struct {
	ip       netip.Addr
	port     int  // -1: the host's
	optional bool // may fail: IPv6 where there is none
}

func places(listen []string) ([]listenAddr, error) {
	if len(listen) == 0 {
		return []listenAddr{{ip: netip.IPv4Unspecified(), port: -1}, {ip: netip.IPv6Unspecified(), port: -1, optional: true}}, nil
	}
	var out []listenAddr
	for _, s := range listen {
		p, err := parsePlace(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("listen address %q: %w: write an IP, IP:port or /ip4/…/tcp/…", s, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func parsePlace(s string) (listenAddr, error) {
	if !strings.HasPrefix(s, "/") {
		if ip, err := netip.ParseAddr(s); err == nil {
			return listenAddr{ip: ip, port: -1}, nil
		}
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			return listenAddr{}, errors.New("it is no IP address of this machine")
		}
		return listenAddr{ip: ap.Addr(), port: int(ap.Port())}, nil
	}
	m, err := ma.NewMultiaddr(s)
	if err != nil {
		return listenAddr{}, err
	}
	ip, err := manet.ToIP(m)
	if err != nil {
		return listenAddr{}, err
	}
	a, _ := netip.AddrFromSlice(ip)
	p := listenAddr{ip: a.Unmap(), port: -1}
	for _, code := range []int{ma.P_TCP, ma.P_UDP} {
		if v, err := m.ValueForProtocol(code); err == nil {
			if _, err := fmt.Sscanf(v, "%d", &p.port); err != nil {
				return listenAddr{}, err
			}
		}
	}
	return p, nil
}

// listeners is where a host listens: everywhere on one port, and at a fallback port if it is
// sought. It is opened once, while the host is made.
type listeners struct {
	id       peer.ID
	sockets  Sockets
	sw       *swarm.Swarm
	log      *slog.Logger
	fallback int // 0 without one
}

// open binds every place, on the first port that is free.
func (d *listeners) open(cfg Config) error {
	where, err := places(cfg.Listen)
	if err != nil {
		return err
	}
	tries := []int{DefaultPort, 0}
	if cfg.Prefer > 0 {
		tries = []int{cfg.Prefer, DefaultPort, 0}
	}
	for _, port := range tries {
		// A free TCP port may be taken for UDP, so that one draw is not always enough.
		for draw := 0; draw < 1 || port == 0 && draw < 10; draw++ {
			if err = d.listenOn(where, port, cfg.Prefer); err == nil {
				if cfg.Sought && d.port() != cfg.Prefer {
					d.openFallback(where)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("listen: %w", err)
}

// listenOn binds every place on one port (0: a free one) or nothing.
func (d *listeners) listenOn(where []listenAddr, port, prefer int) (err error) {
	var bound []ma.Multiaddr
	defer func() {
		if err != nil {
			d.sw.ListenClose(bound...)
		}
	}()
	for _, w := range where {
		want := port
		switch {
		case w.port > 0:
			want = w.port
		case w.port == 0 && port != prefer:
			want = 0 // any will do, and best the one of the last run: others know it
		}
		got, as, err := d.listenPair(w.ip, want)
		bound = append(bound, as...)
		if err != nil {
			if w.optional && len(bound) > 0 {
				continue
			}
			if w.port > 0 {
				err = fmt.Errorf("port %d cannot be listened on: %w: choose another port, or 0 for a free one", w.port, err)
			}
			return err
		}
		if w.port < 0 {
			port = got // the others follow the one that was drawn
		}
	}
	return nil
}

// listenPair binds UDP first: its socket is exclusive, so that two peers never share a port.
func (d *listeners) listenPair(ip netip.Addr, port int) (got int, bound []ma.Multiaddr, err error) {
	if d.sockets != nil {
		return d.bind(ip, port, "tcp/%d", ma.P_TCP)
	}
	got, bound, err = d.bind(ip, port, "udp/%d/quic-v1", ma.P_UDP)
	if err != nil {
		return 0, nil, err
	}
	_, beside, err := d.bind(ip, got, "tcp/%d", ma.P_TCP)
	if err != nil {
		d.sw.ListenClose(bound...)
		return 0, nil, err
	}
	return got, append(bound, beside...), nil
}

// bind listens with one transport, and tells on which port (0 draws one) and as what.
func (d *listeners) bind(ip netip.Addr, port int, form string, code int) (got int, bound []ma.Multiaddr, err error) {
	before := d.sw.ListenAddresses()
	m, err := ma.NewMultiaddr(fmt.Sprintf("/%s/"+form, ipPart(ip), port))
	if err == nil {
		err = d.sw.Listen(m)
	}
	if err != nil {
		return 0, nil, err
	}
	for _, a := range d.sw.ListenAddresses() {
		if v, err := a.ValueForProtocol(code); err == nil && !slices.ContainsFunc(before, a.Equal) {
			bound = append(bound, a)
			fmt.Sscanf(v, "%d", &got)
		}
	}
	return got, bound, nil
}

// onlyLoopback tells whether nobody but this machine can reach us.
func (d *listeners) onlyLoopback() bool {
	for _, a := range d.sw.ListenAddresses() {
		if !isRelay(a) && len(a) > 1 && !manet.IsIPLoopback(a) {
			return false
		}
	}
	return true
}

// Port is the port listened on, the first place's if they differ.
func (h *Host) Port() int { return h.doors.port() }

func (d *listeners) port() int {
	for _, a := range d.sw.ListenAddresses() {
		if v, err := a.ValueForProtocol(ma.P_TCP); err == nil && !isRelay(a) && !d.isFallback(a) {
			port := 0
			fmt.Sscanf(v, "%d", &port)
			return port
		}
	}
	return 0
}
