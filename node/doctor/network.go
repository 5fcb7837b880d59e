package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

func (l *list) tcp(r Reach) {
	do := fmt.Sprintf("open %d/tcp towards this machine in its firewall and router, and name that address: `peer up --announce HOST:PORT`", r.Port)
	switch {
	case len(r.Not) == 0:
		l.ok("tcp", "others reach it by TCP: %s", few(r.Reached))
	case len(r.Reached) > 0:
		l.warn("tcp", do, "%s cannot reach it by TCP; %s can", few(r.Not), few(r.Reached))
	case r.Relayed:
		l.warn("tcp", do+"; or live with the relay", "no peer reaches it by TCP (tried: %s): they come through a relay", few(r.Not))
	default:
		l.fail("tcp", do, "no peer reaches it by TCP (tried: %s), and there is no relay for it", few(r.Not))
	}
}

func (l *list) udp(r Reach) {
	do := fmt.Sprintf("open %d/udp towards this machine; without it links to peers behind NATs go through relays", r.Port)
	switch {
	case len(r.Not) == 0:
		l.ok("udp", "others reach it by UDP: %s", few(r.Reached))
	case len(r.Reached) > 0:
		l.warn("udp", do, "%s cannot reach it by UDP; %s can", few(r.Not), few(r.Reached))
	default:
		l.warn("udp", do, "no peer reaches it by UDP (tried: %s)", few(r.Not))
	}
}

func (l *list) nat(n NAT) {
	first := n.Seen[0]
	switch {
	case slices.ContainsFunc(n.Seen, func(a netip.AddrPort) bool { return a != first }):
		l.warn("nat", "forward a UDP port of its router to this machine, or live with relays", "its NAT varies by destination: direct links to peers behind other NATs will fail")
	case slices.Contains(n.Own, first.Addr()):
		l.ok("nat", "it is behind no NAT towards the %d peers that told", len(n.Seen))
	default:
		l.ok("nat", "it is behind a NAT that keeps one address (%s) for all: direct links work", first)
	}
}

func (l *list) links(k Links) {
	all := len(k.Direct) + len(k.Relayed)
	punches := ""
	if k.Punched+k.Missed > 0 {
		punches = fmt.Sprintf(", and %d of %d tries to get through NATs succeeded", k.Punched, k.Punched+k.Missed)
	}
	switch {
	case all == 0 && len(k.None) > 0:
		l.fail("relays", "see whether this machine has a network, and `peer peers` on another one", "it is connected to none of the other %d peers that are here", len(k.None))
	case len(k.Relayed) > 0:
		l.warn("relays", "open its port, or theirs, towards the other (see tcp and udp)", "%d of %s go through a relay: to %s%s", len(k.Relayed), many(all, "link"), few(k.Relayed), punches)
	case all == 0:
		l.ok("relays", "there are no links: no other peer is here")
	case k.Places > 0:
		l.ok("relays", "all of %s are direct; others find it through %s%s", many(all, "link"), many(k.Places, "relay"), punches)
	default:
		l.ok("relays", "%s, none through a relay%s", many(all, "direct link"), punches)
	}
}

// A link that carries less, or over which a round trip takes longer, is felt by its users.
const (
	thin    = 16 << 10 // bytes per second
	distant = time.Second
)

func (l *list) carried(c Carried) {
	const mtu = "lower the MTU of both machines' interfaces until it works (`ip link set dev DEVICE mtu 1280`, or less), or let ICMP \"fragmentation needed\" pass on the way"
	var silent, lost, slow, away []string
	for _, line := range c.Lines {
		rate := float64(c.Size) / max(line.Large, time.Microsecond).Seconds()
		switch {
		case line.Silent:
			silent = append(silent, line.Peer)
			continue
		case line.Lost:
			lost = append(lost, line.Peer)
		case rate < thin:
			slow = append(slow, fmt.Sprintf("%s (%.0f kbit/s)", line.Peer, rate*8/1000))
		}
		if line.Trip > distant {
			away = append(away, fmt.Sprintf("%s (%s)", line.Peer, span(line.Trip)))
		}
	}
	if len(c.Mute) > 0 {
		l.fail("links", mtu, "connections to %s are accepted, and no handshake ends: large packets get lost on the way, the link carries next to nothing, or another program listens there", few(c.Mute))
	}
	if len(silent) > 0 {
		l.fail("links", "see how busy the link is, and give it a faster one", "connections to %s stand, and a small message is not answered within %s: the link is full or cut", few(silent), span(c.Limit))
	}
	if len(lost) > 0 {
		l.fail("links", mtu, "small messages of %s arrive, and one of %d KiB does not within %s: large packets get lost on the way, or the link carries less than %.0f kbit/s", few(lost), c.Size>>10, span(c.Limit), float64(c.Size)*8/1000/c.Limit.Seconds())
	}
	if len(slow) > 0 {
		l.warn("links", "give it a faster link, or keep jobs with large files and much output away from it (`peer run --constraint`)", "slow links from %s: files, output and snapshots of the ledger take long", few(slow))
	}
	if len(away) > 0 {
		l.warn("links", "let peers vote that are near each other (`peer roles`): a decision takes some round trips", "round trips take long to %s", few(away))
	}
	if len(silent)+len(lost)+len(slow)+len(away)+len(c.Mute) == 0 {
		l.ok("links", "%s carried a message of %d KiB without delay", many(len(c.Lines), "link"), c.Size>>10)
	}
}

func (l *list) lan(n LAN) {
	const announce = "say where others find it: `peer up --announce HOST:PORT`"
	real := len(n.Addrs) - len(n.Virtual)
	switch {
	case len(n.Addrs) == 0:
		l.warn("lan", announce, "it announces no address: only peers on this machine find it")
	case real == 0:
		l.warn("lan", announce, "all its addresses are of bridges that only this machine sees (%s)", few(n.Virtual))
	case n.Off != "":
		l.ok("lan", "it is not told on its network (mDNS): %s", n.Off)
	case n.Wrong != "":
		l.warn("lan", "let UDP port 5353 pass on its network, or join by ticket or address", "it is not found by itself on its network (mDNS): %s", n.Wrong)
	case n.Heard == 0:
		l.ok("lan", "it is told on its network (mDNS), and has heard no peer of its cluster there")
	default:
		l.ok("lan", "it is told on its network (mDNS), and has heard %s there", many(n.Heard, "peer"))
	}
}

// From so much on a clock is wrong, and times that people set – tickets, orders – are, too.
const (
	skewed = 2 * time.Second
	wrong  = time.Minute
)

// clock compares with the others': if most of them agree that this one is wrong, it is this one.
func (l *list) clock(all []Skew) {
	const ntp = "turn on ntp there: timedatectl set-ntp true"
	var off []string
	worst, within := time.Duration(0), time.Duration(0)
	for _, s := range all {
		within = max(within, s.Within, s.Ahead.Abs())
		if over := s.Ahead.Abs() - s.Within; over > skewed {
			off = append(off, s.Peer)
			if s.Ahead.Abs() > worst.Abs() {
				worst = s.Ahead
			}
		}
	}
	how := "behind"
	if worst < 0 {
		how = "ahead of"
	}
	mine := 2*len(off) > len(all)
	switch {
	case len(off) == 0:
		l.ok("clock", "its clock is that of %s, within %s", many(len(all), "other peer"), span(within))
	case mine && worst.Abs() > wrong:
		l.fail("clock", ntp, "its clock is %s %s that of %s", span(worst), how, few(off))
	default:
		l.warn("clock", ntp, "its clock is up to %s %s that of %s", span(worst), how, few(off))
	}
}
