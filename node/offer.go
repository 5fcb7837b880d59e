package node

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"

	"github.com/pbnjay/memory"

	"covey/dispatch/session"
	"covey/membership"
	"covey/p2p"
	"covey/taskstate"
)

// offer is what this peer gives to tasks, and what constraints may ask about it.
func (n *Node) offer() session.Offer {
	r := taskstate.Resources{MilliCPU: n.cfg.MilliCPU, Memory: n.cfg.Memory, Others: n.cfg.Others}
	if r.MilliCPU <= 0 {
		r.MilliCPU = totalCPU()
	}
	if r.Memory <= 0 {
		r.Memory = int64(memory.TotalMemory())
	}
	o := session.Offer{Resources: r, Name: n.name, Labels: n.cfg.Labels, OS: runtime.GOOS, Arch: runtime.GOARCH}
	if n.host != nil {
		o.Addrs = hostIPs(n.host.Addrs())
	}
	return o
}

// offerAnew describes this peer again when its addresses have changed. The view tells: membership
// looks after them.
func (n *Node) offerAnew(v *membership.View) {
	self, ok := v.Get(n.self)
	if !ok {
		return
	}
	addrs := hostIPs(self.Addrs)
	n.atMu.Lock()
	same := slices.Equal(addrs, n.at)
	n.at = addrs
	n.atMu.Unlock()
	if !same {
		o := n.offer()
		o.Addrs = addrs
		n.worker.SetOffer(o)
	}
}

// maxOfferedIPs is more than a machine has; a worker that offers more is refused.
const maxOfferedIPs = 32

// hostIPs are the IP addresses of the machine itself among multiaddrs, ascending: not those of
// relays. Loopback counts only where there is nothing else.
func hostIPs(multiaddrs []string) []string {
	var reached, loopback []netip.Addr
	for _, m := range multiaddrs {
		if strings.Contains(m, "/p2p-circuit") {
			continue
		}
		text, _ := p2p.IPAndPort(m)
		ip, ok := netip.AddrFromSlice(text)
		switch ip = ip.Unmap(); {
		case !ok, ip.IsUnspecified(), ip.IsLinkLocalUnicast():
		case ip.IsLoopback():
			loopback = append(loopback, ip)
		default:
			reached = append(reached, ip)
		}
	}
	if len(reached) == 0 {
		reached = loopback
	}
	slices.SortFunc(reached, netip.Addr.Compare)
	reached = slices.Compact(reached)
	var out []string
	for _, ip := range reached[:min(len(reached), maxOfferedIPs)] {
		out = append(out, ip.String())
	}
	return out
}
