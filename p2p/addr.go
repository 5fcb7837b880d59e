package p2p

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// ParseAddr reads where a peer is, as a person gives it: a multiaddr, with or without /p2p/ID, or
// host:port (IPv4, [IPv6] or a name; TCP). id is "" if s does not say who is there. addr is a
// multiaddr without /p2p/ID.
func ParseAddr(s string) (id, addr string, err error) {
	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, "/") {
		m, err := hostPort(s)
		if err != nil {
			return "", "", err
		}
		return "", m.String(), nil
	}
	m, err := ma.NewMultiaddr(s)
	if err != nil {
		return "", "", fmt.Errorf("address %q: %w: write /ip4/192.0.2.1/tcp/%d/p2p/ID or 192.0.2.1:%d", s, err, DefaultPort, DefaultPort)
	}
	where, pid := peer.SplitAddr(m)
	if len(where) == 0 {
		return "", "", fmt.Errorf("address %q names a peer but not where it is: put /ip4/…/tcp/… in front", s)
	}
	if err := dialable(where); err != nil {
		return "", "", fmt.Errorf("address %q: %w", s, err)
	}
	if pid != "" {
		id = pid.String()
	}
	return id, where.String(), nil
}

func hostPort(s string) (ma.Multiaddr, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return nil, fmt.Errorf("address %q: write host:port (an IPv6 address in brackets: [2001:db8::1]:%d) or a multiaddr", s, DefaultPort)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("address %q: port %q is not a number between 1 and 65535", s, port)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ma.NewMultiaddr(fmt.Sprintf("/%s/tcp/%d", ipPart(ip), n))
	}
	if !isName(host) {
		return nil, fmt.Errorf("address %q: %q is neither an IP address nor a name", s, host)
	}
	return ma.NewMultiaddr(fmt.Sprintf("/dns/%s/tcp/%d", host, n))
}

func ipPart(ip netip.Addr) string {
	ip = ip.Unmap()
	switch {
	case ip.Is4():
		return "ip4/" + ip.String()
	case ip.Zone() != "":
		return "ip6zone/" + ip.Zone() + "/ip6/" + ip.WithZone("").String()
	}
	return "ip6/" + ip.String()
}

func isName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, r := range label {
			if r != '-' && r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') {
				return false
			}
		}
	}
	return true
}

// dialable tells why nobody here can dial m.
func dialable(m ma.Multiaddr) error {
	if isRelay(m) {
		return nil
	}
	switch m[0].Code() {
	case ma.P_IP4, ma.P_IP6, ma.P_DNS, ma.P_DNS4, ma.P_DNS6, ma.P_DNSADDR, ma.P_IP6ZONE:
	default:
		return errors.New("it does not start with /ip4, /ip6 or /dns")
	}
	if m[0].Code() == ma.P_DNSADDR || hasProtocol(m, ma.P_TCP) || hasProtocol(m, ma.P_QUIC_V1) {
		return nil
	}
	return errors.New("it has neither /tcp/PORT nor /udp/PORT/quic-v1")
}

func hasProtocol(m ma.Multiaddr, code int) bool {
	return slices.ContainsFunc(m, func(c ma.Component) bool { return c.Code() == code })
}

func isRelay(m ma.Multiaddr) bool { return hasProtocol(m, ma.P_CIRCUIT) }

func isQUIC(m ma.Multiaddr) bool { return hasProtocol(m, ma.P_QUIC_V1) && !isRelay(m) }

// parseAddrs keeps what can be dialled, and drops the rest: addresses come from outside.
func parseAddrs(addrs []string) []ma.Multiaddr {
	out := make([]ma.Multiaddr, 0, len(addrs))
	for _, s := range addrs {
		m, err := ma.NewMultiaddr(s)
		if err != nil || len(m) == 0 {
			continue
		}
		if m, _ = peer.SplitAddr(m); len(m) > 0 && dialable(m) == nil {
			out = append(out, m)
		}
	}
	return ma.Unique(out)
}

// orderAddrs puts the addresses others should try first in front: announced, public, private on
// real interfaces, virtual interfaces, relayed; TCP before QUIC. Loopback and link-local are
// dropped if anything else is there.
func orderAddrs(addrs, announced []ma.Multiaddr, virtual func(netip.Addr) bool) []ma.Multiaddr {
	rank := func(m ma.Multiaddr) int {
		switch {
		case slices.ContainsFunc(announced, m.Equal):
			return 0
		case isRelay(m):
			return 6
		case manet.IsIPLoopback(m), manet.IsIP6LinkLocal(m):
			return 7
		case manet.IsPublicAddr(m):
			return 1
		}
		ip, err := manet.ToIP(m)
		if err != nil {
			return 2
		}
		a, _ := netip.AddrFromSlice(ip)
		if virtual != nil && virtual(a.Unmap()) {
			return 5
		}
		if a.Unmap().Is4() {
			return 3
		}
		return 4
	}
	addrs = ma.Unique(slices.Clone(addrs))
	slices.SortFunc(addrs, func(a, b ma.Multiaddr) int {
		quic := func(m ma.Multiaddr) int {
			if isQUIC(m) {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(quic(a), quic(b)), a.Compare(b))
	})
	if i := slices.IndexFunc(addrs, func(m ma.Multiaddr) bool { return rank(m) == 7 }); i > 0 {
		addrs = addrs[:i]
	}
	return addrs
}

// virtualIPs are the addresses of bridges and tunnels that only this machine sees.
func virtualIPs() func(netip.Addr) bool {
	set := map[netip.Addr]bool{}
	ifs, err := net.Interfaces()
	if err != nil {
		return func(netip.Addr) bool { return false }
	}
	for _, i := range ifs {
		if !isVirtual(i.Name) {
			continue
		}
		as, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range as {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				set[p.Addr().Unmap()] = true
			}
		}
	}
	return func(a netip.Addr) bool { return set[a] }
}

func isVirtual(name string) bool {
	for _, p := range []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "podman", "lxcbr", "lxdbr", "vmnet", "vboxnet"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// IPAndPort reads an ip multiaddr's parts; nil for names.
func IPAndPort(addr string) (net.IP, string) {
	p := strings.Split(addr, "/")
	if len(p) < 5 || p[1] != "ip4" && p[1] != "ip6" {
		return nil, ""
	}
	return net.ParseIP(p[2]), p[4]
}
