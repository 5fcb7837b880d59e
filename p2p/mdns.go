package p2p

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/zeroconf/v2"
	manet "github.com/multiformats/go-multiaddr/net"

	"covey/pause"
)

const (
	mdnsService = "_covey._tcp"
	mdnsDomain  = "local"
	mdnsAddrs   = 6 // told and taken, at most
)

// startMDNS tells the local networks where we are, and listens for others, on real interfaces only. That it cannot is not an
// error: there may be no multicast here.
func (h *Host) startMDNS() error {
	ifs := realInterfaces()
	if !h.cfg.MDNS || h.onlyLoopback() || len(ifs) == 0 {
		return nil
	}
	if h.cfg.OnFound != nil {
		h.spawn(func() { h.browse(ifs) })
	}
	text, ips := h.mdnsText()
	if len(ips) == 0 {
		return nil
	}
	// The instance name is public to the whole network segment: a prefix of the peer id says nothing more than its records do.
	name := "covey-" + h.id.String()[len(h.id.String())-12:]
	s, err := zeroconf.RegisterProxy(name, mdnsService, mdnsDomain, h.Port(), name, ips, text, ifs, zeroconf.TTL(120))
	if err != nil {
		h.log.Warn("this peer cannot be found on the local network by itself (mDNS): use a ticket or an address", "err", err)
		return nil
	}
	h.undo = append(h.undo, closer(s.Shutdown))
	return nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// mdnsText is what others read: the peer id and where it is.
func (h *Host) mdnsText() (text, ips []string) {
	text = []string{"id=" + h.Self()}
	for _, a := range parseAddrs(h.Addrs()) {
		ip, err := manet.ToIP(a)
		if err != nil || isRelay(a) || len(text) > mdnsAddrs {
			continue
		}
		if s := "addr=" + a.String(); len(s) < 250 {
			text = append(text, s)
			ips = append(ips, ip.String())
		}
	}
	return text, ips
}

// browse reports what others tell until the host closes.
func (h *Host) browse(ifs []net.Interface) {
	for h.ctx.Err() == nil {
		found := make(chan *zeroconf.ServiceEntry, 16)
		done := make(chan error, 1)
		go func() { done <- zeroconf.Browse(h.ctx, mdnsService, mdnsDomain, found, zeroconf.SelectIfaces(ifs)) }()
		if err := h.report(found, done); err != nil {
			h.log.Debug("mDNS", "err", err)
			_ = pause.For(h.ctx, time.Minute)
		}
	}
}

// report passes on entries until Browse has ended.
func (h *Host) report(found <-chan *zeroconf.ServiceEntry, done <-chan error) error {
	for {
		select {
		case e, ok := <-found:
			if !ok { // closed at its end; nil never fires
				found = nil
				continue
			}
			if id, addrs, err := parseMDNS(e.Text); err == nil && id != h.Self() && h.ctx.Err() == nil {
				h.cfg.OnFound(h, id, addrs)
			}
		case err := <-done:
			return err
		}
	}
}

// parseMDNS reads records that anybody on the network may have written.
func parseMDNS(text []string) (id string, addrs []string, err error) {
	for _, s := range text {
		switch key, v, _ := strings.Cut(s, "="); key {
		case "id":
			p, err := peer.Decode(v)
			if err != nil {
				return "", nil, fmt.Errorf("mDNS: %q is not a peer id", v)
			}
			id = p.String()
		case "addr":
			for _, a := range parseAddrs([]string{v}) {
				if len(addrs) < mdnsAddrs && !isRelay(a) && !manet.IsIPLoopback(a) {
					addrs = append(addrs, a.String())
				}
			}
		}
	}
	if id == "" || len(addrs) == 0 {
		return "", nil, fmt.Errorf("mDNS: a record without id or address")
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
