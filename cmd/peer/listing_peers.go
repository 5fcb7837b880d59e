package main

import (
	"slices"
	"strconv"

	"covey/node/api"
)

// staleNews is after how many seconds without news of a peer its age is worth a column.
const staleNews = 10

// peerColumn is one column of `peer peers`.
type peerColumn struct {
	head string
	show bool
	cell func(api.Peer) string
}

// peersTable fits a terminal: who, as what, how it stands, what it is doing and how it is reached.
// Anything else has a column where it tells peers apart, or if all is wanted.
func peersTable(ps api.Peers, wide, labels bool) *grid {
	any := func(is func(api.Peer) bool) bool { return slices.ContainsFunc(ps.Peers, is) }
	columns := []peerColumn{
		{"ID", wide || any(func(p api.Peer) bool { return p.Name == "" || sameName(ps.Peers, p) }), func(p api.Peer) string { return shortID(p.ID) }},
		{"NAME", true, func(p api.Peer) string { return orDash(p.Name) }},
		{"ROLE", true, roleText},
		{"STATE", true, func(p api.Peer) string { return p.Standing }},
		{"AVAILABLE", wide || any(func(p api.Peer) bool { return p.Availability != api.Active }), availabilityText},
		{"CPUS", true, cpusOf},
		{"MEMORY", wide || any(func(p api.Peer) bool { return p.MemoryUsed > 0 }), func(p api.Peer) string { return ofOffer(p, bytesText(p.MemoryUsed), bytesText(p.Memory)) }},
		{"TASKS", true, func(p api.Peer) string { return strconv.Itoa(p.Tasks) }},
		{"LINK", true, linkText},
		{"VERSION", wide || any(func(p api.Peer) bool { return p.Version != ps.Peers[0].Version }), func(p api.Peer) string { return orDash(p.Version) }},
		{"AGE", wide || any(func(p api.Peer) bool { return p.Age >= staleNews }), func(p api.Peer) string { return short(seconds(p.Age)) }},
		{"OFFERS", any(func(p api.Peer) bool { return len(p.Offers) > 0 }), offersText},
		{"LABELS", labels, func(p api.Peer) string { return labelsText(p.Labels) }},
	}
	columns = slices.DeleteFunc(columns, func(c peerColumn) bool { return !c.show })
	t := &grid{}
	for _, c := range columns {
		t.head = append(t.head, c.head)
	}
	for _, p := range ps.Peers {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(p)
		}
		t.add(cells...)
	}
	return t
}

// cpusOf is how many cpus are used of those offered, and how many are promised to what waits in the
// peer's line.
func cpusOf(p api.Peer) string {
	text := ofOffer(p, number(p.CPUsRunning), number(p.CPUs))
	if p.CPUsQueued > 0 {
		text += " +" + number(p.CPUsQueued)
	}
	return text
}

// sameName tells whether another peer has the same name.
func sameName(peers []api.Peer, p api.Peer) bool {
	return slices.ContainsFunc(peers, func(o api.Peer) bool { return o.ID != p.ID && o.Name == p.Name })
}

func roleText(p api.Peer) string {
	switch {
	case p.Coordinator:
		return "coordinator"
	case p.Voter:
		return "voter"
	}
	return "-"
}

// linkText is how this peer reaches another one, and how long a word takes there and back.
func linkText(p api.Peer) string {
	switch {
	case p.RTT <= 0 || p.Path == "none" || p.Path == "self":
		return p.Path
	case p.RTT < 0.001:
		return p.Path + " <1ms"
	}
	return p.Path + " " + short(seconds(p.RTT))
}
