package placement

import (
	"fmt"
	"math"
	"strings"

	"covey/taskstate"
)

// A filter narrows how many tasks a peer may get; one that leaves none refuses the peer and is counted. The order is the order in
// which reasons are looked for and shown. A constraint on a peer's facts is one more entry, after never and before busy.
type filter struct {
	narrow func(Need, *candidate)
	say    func(n int) string // "2 peers not ready"
}

func filters() []filter {
	return []filter{
		{ready, func(n int) string { return peers(n) + " not ready" }},
		{available, func(n int) string { return peers(n) + " not available for new tasks" }},
		{never, func(n int) string { return "insufficient resources on " + peers(n) }},
		{busy, func(n int) string { return "no free resources on " + peers(n) }},
		{capped, func(n int) string { return "max_per_peer reached on " + peers(n) }},
		{full, func(n int) string { return "queue full on " + peers(n) }},
	}
}

func ready(_ Need, c *candidate) {
	if !c.Ready {
		c.keep(0)
	}
}

func available(_ Need, c *candidate) {
	if !c.Available {
		c.keep(0)
	}
}

// never refuses a peer that could not run such a task even if it were idle.
func never(n Need, c *candidate) {
	if !n.Resources.Fits(c.Offer) {
		c.keep(0)
	}
}

// busy keeps what fits into the free resources, and what may queue beyond.
func busy(n Need, c *candidate) {
	fits := howMany(n.Resources, c.Free)
	c.fits = min(c.fits, max(fits, 0))
	if fits < math.MaxInt32 {
		c.room = min(c.room, max(fits+max(c.Ahead, 0), 0))
	}
}

func capped(n Need, c *candidate) {
	if n.MaxPerPeer > 0 {
		c.keep(max(n.MaxPerPeer-c.OfJob, 0))
	}
}

func full(_ Need, c *candidate) { c.keep(max(c.Room, 0)) }

// keep lowers both limits to n.
func (c *candidate) keep(n int) { c.fits, c.room = min(c.fits, n), min(c.room, n) }

// howMany tasks fit into what is free: negative where more is promised than offered, MaxInt32 where nothing is asked for.
func howMany(need, free taskstate.Resources) int {
	n := int64(math.MaxInt32)
	if need.MilliCPU > 0 {
		n = min(n, floorDiv(free.MilliCPU, need.MilliCPU))
	}
	if need.Memory > 0 {
		n = min(n, floorDiv(free.Memory, need.Memory))
	}
	return int(max(n, -math.MaxInt32))
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// refusals counts, per filter, the peers it refused.
type refusals struct {
	counts []int
	none   bool // there was no peer at all
}

// admit runs the filters over the peers.
func admit(need Need, peers []Peer) ([]candidate, refusals) {
	fs := filters()
	ref := refusals{counts: make([]int, len(fs)), none: len(peers) == 0}
	cands := make([]candidate, 0, len(peers))
next:
	for i := range peers {
		c := candidate{Peer: &peers[i], at: i, fits: math.MaxInt32, room: math.MaxInt32}
		for f := range fs {
			if fs[f].narrow(need, &c); c.room == 0 {
				ref.counts[f]++
				continue next
			}
		}
		cands = append(cands, c)
	}
	return cands, ref
}

// reason words why a plan came up short. Peers that took tasks until they were full stand beside those that were refused.
func (r refusals) reason(cands []candidate) string {
	if r.none {
		return "no suitable peer (no peers)"
	}
	var parts []string
	for f, n := range r.counts {
		if n > 0 {
			parts = append(parts, filters()[f].say(n))
		}
	}
	if len(cands) > 0 {
		return strings.Join(append([]string{"no more room on " + peers(len(cands))}, parts...), "; ")
	}
	return "no suitable peer (" + strings.Join(parts, "; ") + ")"
}

func peers(n int) string {
	if n == 1 {
		return "1 peer"
	}
	return fmt.Sprintf("%d peers", n)
}
