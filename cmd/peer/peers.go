package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coveyproject/covey/node/api"
)

func peersCommand(c *cli) *cobra.Command {
	var labels, wide bool
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Who is here: standing, coordinator, capacity, tasks",
		Long: `Who is here: role in the ledger, standing, cpus of tasks that have begun of those offered
(and, with a +, of tasks that wait there for their turn), how busy the machine's processors are with
all that runs there, as far as its system tells, tasks, and how this peer reaches it. What is not
the same everywhere has a column, too: versions, news that is old, memory that is promised, named
counts, and, below the table, what tasks can be held to, as each peer found by trying it
(docs/trust.md; in JSON "holds"). --wide shows all of it, memory in use (RAM),
the load average and addresses.`,
		Example: "  peer peers\n  peer peers --wide --labels\n  peer peers -o json | jq -r '.peers[] | select(.standing==\"ready\").name'",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ps, err := c.client().Peers(cmd.Context())
			if err != nil {
				return err
			}
			if err := emit(c, nil, ps, ps.Peers, func(w io.Writer) { peersTable(ps, wide, labels).write(w); writeHolds(w, ps.Peers, wide) }); err != nil {
				return err
			}
			if ps.Coordinator == "" && c.output == tableFormat {
				fmt.Fprintln(c.Err, noCoordinatorLine(ps))
			}
			if c.output == tableFormat {
				writeTroubles(c.Err, ps.Peers)
			}
			if one := oneSeat(ps); one != "" {
				fmt.Fprintln(c.Err, one)
			}
			if ps.Frozen {
				fmt.Fprintf(c.Err, "replacement is frozen: %s; their tasks wait for them. If they are really gone: `peer thaw`\n", ps.FrozenReason)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&wide, "wide", false, "show everything: ids, memory, versions, addresses, age of the news")
	cmd.Flags().BoolVar(&labels, "labels", false, "show the labels, too")
	return cmd
}

// writeHolds says what tasks can be held to where that is not the same everywhere, or all is
// wanted. How many names fit a terminal, so many are told.
func writeHolds(w io.Writer, peers []api.Peer, wide bool) {
	const columns = 80
	of, order := map[string][]string{}, []string{}
	for _, p := range peers {
		if p.OS == "" { // the coordinator has not heard from it
			continue
		}
		if p.Holds == nil {
			p.Holds = []string{}
		}
		holds := heldText(p.Holds)
		if of[holds] == nil {
			order = append(order, holds)
		}
		of[holds] = append(of[holds], printable(cmp.Or(p.Name, shortID(p.ID))))
	}
	if len(order) < 2 && !wide {
		return
	}
	for _, holds := range order {
		who := "everywhere"
		if names := of[holds]; len(names) < len(peers) {
			line := func(n int) string {
				s := strings.Join(names[:n], ", ")
				if n < len(names) {
					s += fmt.Sprintf(" and %d more", len(names)-n)
				}
				return s
			}
			n := len(names)
			for n > 1 && utf8.RuneCountInString("tasks can be held to "+holds+" on "+line(n)) > columns {
				n--
			}
			who = "on " + line(n)
		}
		fmt.Fprintf(w, "tasks can be held to %s %s\n", holds, who)
	}
}

// writeTroubles says what is wrong with peers, one line each.
func writeTroubles(w io.Writer, peers []api.Peer) {
	for _, p := range peers {
		if p.Trouble != "" {
			fmt.Fprintln(w, printable(p.Name+" takes no tasks: "+p.Trouble))
		}
		for _, t := range p.Troubles {
			if t.Message != p.Trouble {
				fmt.Fprintln(w, printable(p.Name+": "+t.Message))
			}
		}
	}
}

func noCoordinatorLine(ps api.Peers) string {
	line := "no coordinator in sight: what runs goes on, new jobs are held"
	if ps.WaitingFor != "" {
		line += "; waiting for " + ps.WaitingFor + " – start `peer up` there (gone for good? `peer recover`)"
	}
	return line
}

// ofOffer writes what is promised of what a peer offers. Of one that was not heard since the
// coordinator is coordinator nobody knows its offer: no peer offers no memory.
func ofOffer(p api.Peer, used, offered string) string {
	if p.Memory == 0 {
		offered = "-"
	}
	return used + "/" + offered
}

// availabilityText says whether a peer takes tasks, of one that is drained what is left on it, and
// why, as the person who decided it said.
func availabilityText(p api.Peer) string {
	text := availabilityWord(p)
	if p.AvailabilityReason != "" && p.Availability != api.Active {
		text += " (" + p.AvailabilityReason + ")"
	}
	return text
}

func availabilityWord(p api.Peer) string {
	if p.Availability == api.Drained {
		if n := tasksLeft(p); n > 0 {
			return fmt.Sprintf("draining: %d left", n)
		}
		return "drained"
	}
	if p.Availability == api.Paused {
		return "paused"
	}
	return p.Availability
}

// oneSeat warns while a single machine holds all decisions though others may.
func oneSeat(ps api.Peers) string {
	seats, may, who, admin := 0, 0, "", false
	for _, p := range ps.Peers {
		admin = admin || p.Self && slices.Contains(p.Roles, "admin")
		if p.Voter {
			seats, who = seats+1, p.Name
		}
		if slices.Contains(p.Roles, "voter") && p.Standing != "left" {
			may++
		}
	}
	if ps.Coordinator == "" || seats != 1 || may < 2 {
		return ""
	}
	return api.OneSeat(who, may, admin)
}

// staleNews is after how many seconds without news of a peer its age is worth a column.
const staleNews = 10

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
		{"BUSY", wide || any(func(p api.Peer) bool { return p.Load != nil && p.Load.CPU != nil }), busyText},
		{"MEMORY", wide || any(func(p api.Peer) bool { return p.MemoryUsed > 0 }), func(p api.Peer) string { return ofOffer(p, bytesText(p.MemoryUsed), bytesText(p.Memory)) }},
		{"DISK", wide || any(func(p api.Peer) bool { return p.DiskUsed > 0 }), func(p api.Peer) string { return ofOffer(p, bytesText(p.DiskUsed), bytesText(p.Disk)) }},
		{"RAM", wide, ramText},
		{"LOAD", wide, averageText},
		{"TASKS", true, func(p api.Peer) string { return strconv.Itoa(p.Tasks) }},
		{"LINK", true, linkText},
		{"VERSION", wide || any(func(p api.Peer) bool { return p.Version != ps.Peers[0].Version }), func(p api.Peer) string { return orDash(p.Version) }},
		{"AGE", wide || any(func(p api.Peer) bool { return p.Age >= staleNews }), func(p api.Peer) string { return short(seconds(p.Age)) }},
		{"OFFERS", any(func(p api.Peer) bool { return len(p.Offers) > 0 }), offersText},
		{"ADDRESSES", wide, addressesText},
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

// addressesText is where a peer says that it can be reached: IP and port, each once.
func addressesText(p api.Peer) string {
	var out []string
	for _, a := range p.Addrs {
		if parts := strings.Split(a, "/"); len(parts) > 4 { // /ip4/192.0.2.1/tcp/4001
			if a = net.JoinHostPort(parts[2], parts[4]); slices.Contains(parts, "p2p-circuit") {
				a = "through " + a
			}
		}
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return orDash(strings.Join(out, " "))
}

// busyText is how busy a machine is, with all that runs there.
func busyText(p api.Peer) string {
	if p.Load == nil || p.Load.CPU == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100**p.Load.CPU)
}

func ramText(p api.Peer) string {
	if p.Load == nil || p.Load.Memory == nil {
		return "-"
	}
	return bytesText(*p.Load.Memory) + "/" + bytesText(p.Load.MemoryOf)
}

func averageText(p api.Peer) string {
	if p.Load == nil || p.Load.Average == nil {
		return "-"
	}
	return number(*p.Load.Average)
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
