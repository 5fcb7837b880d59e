package clinic

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/doctor"
)

// facts looks at everything at once.
func (c *Clinic) facts(ctx context.Context) doctor.Facts {
	f := doctor.Facts{Dir: c.cfg.Dir, Running: doctor.Is(true), Limits: limits()}
	f.Elections = doctor.Is(c.cfg.Elected(time.Now().Add(-time.Hour)))
	var probes sync.WaitGroup
	probes.Go(func() {
		read := within(patience, func() doctor.Known[[]api.Finding] { return doctor.Is(faults(c.cfg.Dir)) })
		f.Faults, _ = read.Get() // that the disk does not answer is told by its own check
	})
	probes.Go(func() { f.Folder = within(patience, func() doctor.Known[doctor.Folder] { return folder(c.cfg.Dir) }) })
	probes.Go(func() { f.Sync = c.disk.probe(slices.Contains(c.cfg.Seats(), c.cfg.Self)) })
	probes.Go(func() { f.Room = within(patience, func() doctor.Known[doctor.Room] { return room(c.cfg.Room) }) })
	probes.Go(func() {
		f.TCP = c.reach(ctx, c.cfg.Net.Reach)
		f.NAT = c.nat(ctx) // who was asked to dial has told how to ask it for this
	})
	probes.Go(func() { f.UDP = c.reachUDP(ctx) })
	probes.Go(func() {
		n := c.cfg.Net.LAN()
		f.LAN = doctor.Is(doctor.LAN{Off: n.Off, Wrong: n.Wrong, Heard: n.Heard, Addrs: c.cfg.Net.Addrs(), Virtual: c.cfg.Net.Bridges()})
	})
	probes.Go(func() { f.Clock = c.clock(ctx) })
	probes.Go(func() { f.Carried = c.carried(ctx) })
	probes.Go(func() { c.cluster(ctx, &f) })
	probes.Go(func() {
		known, warnings := c.cfg.Wrong(ctx)
		f.Troubles = doctor.Is(doctor.Troubles{Known: known, Warnings: warnings})
	})
	probes.Wait()
	return f
}

// within is what a look finds out in time. One that does not end is left to itself.
func within[T any](limit time.Duration, look func() doctor.Known[T]) doctor.Known[T] {
	found := make(chan doctor.Known[T], 1)
	go func() { found <- look() }()
	select {
	case k := <-found:
		return k
	case <-time.After(limit):
		return doctor.NotTried[T]("it did not end within " + limit.String())
	}
}

// each asks a few peers the same, at once, and gives what came back in time.
func each[T any](ctx context.Context, peers []string, limit time.Duration, ask func(ctx context.Context, peer string) (T, bool)) map[string]T {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type told struct {
		peer string
		v    T
		ok   bool
	}
	peers = peers[:min(len(peers), asked)]
	all := make(chan told, len(peers))
	for _, p := range peers {
		go func() {
			v, ok := ask(ctx, p)
			all <- told{p, v, ok}
		}()
	}
	out := map[string]T{}
	for range peers {
		select {
		case t := <-all:
			if t.ok {
				out[t.peer] = t.v
			}
		case <-ctx.Done():
			return out
		}
	}
	return out
}

// direct are the peers that are connected without a relay.
func (c *Clinic) direct() (ids []string) {
	for _, id := range c.here() {
		if direct, _ := c.cfg.Net.Connected(id); direct {
			ids = append(ids, id)
		}
	}
	return ids
}

const nobody = "no other peer is connected directly"

// reachUDP has others dial this peer by UDP.
func (c *Clinic) reachUDP(ctx context.Context) doctor.Known[doctor.Reach] {
	ports := c.cfg.Net.PortsUDP()
	if len(ports) == 0 {
		return doctor.NotTried[doctor.Reach]("it does not listen for UDP")
	}
	return c.reach(ctx, func(ctx context.Context, peer string) (known, reached bool) {
		a, err := c.ask(ctx, peer, question{What: askUDP, Ports: ports[:min(len(ports), maxPorts)]}, dialPatience)
		return err == nil && a.Known, a.Reached
	})
}

// nat compares where this peer's datagrams come from, as others see it.
func (c *Clinic) nat(ctx context.Context) doctor.Known[doctor.NAT] {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n := doctor.NAT{Seen: c.cfg.Net.Outside(ctx)}
	if len(n.Seen) < 2 {
		return doctor.NotTried[doctor.NAT](fmt.Sprintf("two others have to tell where it sends from, and %d did", len(n.Seen)))
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return doctor.NotTried[doctor.NAT](err.Error())
	}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			n.Own = append(n.Own, p.Addr().Unmap())
		}
	}
	return doctor.Is(n)
}

// reach has others dial this peer.
func (c *Clinic) reach(ctx context.Context, dial func(ctx context.Context, peer string) (known, reached bool)) doctor.Known[doctor.Reach] {
	ids := c.direct()
	if len(ids) == 0 {
		return doctor.NotTried[doctor.Reach](nobody)
	}
	r := doctor.Reach{Port: c.cfg.Net.Port(), Relayed: c.cfg.Net.Places() > 0}
	found := each(ctx, ids, dialPatience, func(ctx context.Context, peer string) (bool, bool) {
		known, reached := dial(ctx, peer)
		return reached, known
	})
	for id, reached := range found {
		if reached {
			r.Reached = append(r.Reached, c.cfg.Name(id))
		} else {
			r.Not = append(r.Not, c.cfg.Name(id))
		}
	}
	if len(found) == 0 {
		return doctor.NotTried[doctor.Reach]("no other peer could try")
	}
	return doctor.Is(r)
}

// allow is how long to wait for all of some peers.
func (c *Clinic) allow(peers []string, d time.Duration) time.Duration {
	most := d
	for _, p := range peers {
		most = max(most, far.For(c.cfg.Net, p, d))
	}
	return most
}

// carried has others send a small message and a large one, and looks whether those that are away
// accept connections.
func (c *Clinic) carried(ctx context.Context) doctor.Known[doctor.Carried] {
	ids := c.connected()
	out := doctor.Carried{Size: largeAnswer, Limit: linePatience, Mute: c.mute(ctx)}
	for _, line := range each(ctx, ids, c.allow(ids, linePatience)+time.Second, c.line) {
		out.Lines = append(out.Lines, line)
	}
	slices.SortFunc(out.Lines, func(a, b doctor.Line) int { return strings.Compare(a.Peer, b.Peer) })
	if len(out.Lines)+len(out.Mute) == 0 {
		return doctor.NotTried[doctor.Carried]("no other peer is here that can be asked")
	}
	return doctor.Is(out)
}

// connected are the peers to which a connection stands, whether they are held to be here or not.
func (c *Clinic) connected() (ids []string) {
	for _, m := range c.cfg.Members().Members {
		if direct, relayed := c.cfg.Net.Connected(m.ID); m.ID != c.cfg.Self && (direct || relayed) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// line asks a peer for both at once. A peer of a version that does not know the large one tells
// nothing.
func (c *Clinic) line(ctx context.Context, peer string) (line doctor.Line, told bool) {
	began := time.Now()
	line.Peer = c.cfg.Name(peer)
	var asks sync.WaitGroup
	asks.Go(func() {
		_, err := c.ask(ctx, peer, question{What: askClock}, linePatience)
		line.Trip = time.Since(began)
		line.Silent = err != nil && line.Trip >= linePatience
	})
	var large time.Duration
	asks.Go(func() {
		a, err := c.ask(ctx, peer, question{What: askLarge}, linePatience)
		large = time.Since(began)
		line.Lost = err != nil && large >= linePatience
		told = line.Lost || err == nil && len(a.Findings) > 0
	})
	asks.Wait()
	line.Large = max(0, large-line.Trip)
	return line, told
}

// mute are peers that are away without a goodbye, and whose machines accept connections.
func (c *Clinic) mute(ctx context.Context) (names []string) {
	var ids []string
	addrs := map[string][]string{}
	for _, m := range c.cfg.Members().Members {
		direct, relayed := c.cfg.Net.Connected(m.ID)
		if m.ID != c.cfg.Self && m.Verdict == membership.Dead && !m.Parted && !direct && !relayed {
			ids = append(ids, m.ID)
			addrs[m.ID] = m.Addrs[:min(len(m.Addrs), maxPorts)]
		}
	}
	for id, listens := range each(ctx, ids, c.allow(ids, linePatience), func(ctx context.Context, peer string) (bool, bool) {
		return slices.ContainsFunc(addrs[peer], func(a string) bool { return c.cfg.Net.Listens(ctx, a) }), true
	}) {
		if listens {
			names = append(names, c.cfg.Name(id))
		}
	}
	slices.Sort(names)
	return names
}

// clock compares this clock with others': the answer was written between question and answer.
func (c *Clinic) clock(ctx context.Context) doctor.Known[[]doctor.Skew] {
	ids := c.here()
	if len(ids) == 0 {
		return doctor.NotTried[[]doctor.Skew]("no other peer is here")
	}
	var all []doctor.Skew
	for _, s := range each(ctx, ids, c.allow(ids, patience), func(ctx context.Context, peer string) (doctor.Skew, bool) {
		began := time.Now()
		a, err := c.ask(ctx, peer, question{What: askClock}, patience)
		half := time.Since(began) / 2
		return doctor.Skew{Peer: c.cfg.Name(peer), Ahead: time.UnixMicro(a.Now).Sub(began.Add(half)), Within: half}, err == nil
	}) {
		all = append(all, s)
	}
	if len(all) == 0 {
		return doctor.NotTried[[]doctor.Skew]("no other peer tells its time")
	}
	return doctor.Is(all)
}

// cluster is what the rows of all peers say.
func (c *Clinic) cluster(ctx context.Context, f *doctor.Facts) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ps, err := c.cfg.Peers(ctx)
	if err != nil {
		const why = "the peers are not known"
		f.Voters, f.Versions, f.Names, f.Links, f.Cgroup = doctor.NotTried[doctor.Voters](why), doctor.NotTried[doctor.Versions](why), doctor.NotTried[[]string](why), doctor.NotTried[doctor.Links](why), doctor.NotTried[doctor.Cgroup](why)
		return
	}
	var (
		own      api.Peer
		seats    = c.cfg.Seats()
		voters   = doctor.Voters{Seats: len(seats), Missing: ps.Missing, Waiting: ps.WaitingFor, Away: map[string]doctor.Absent{}}
		versions = doctor.Versions{Own: c.cfg.Version, Others: map[string]string{}}
		links    = doctor.Links{Places: c.cfg.Net.Places()}
		names    []string
	)
	links.Punched, links.Missed = c.cfg.Net.Punched()
	if ps.Frozen {
		voters.Frozen = ps.FrozenReason
	}
	here := c.here()
	for _, p := range ps.Peers {
		if p.Self {
			own = p
		}
	}
	for _, p := range ps.Peers {
		if p.Coordinator {
			voters.Coordinator = p.Name
		}
		is, votes := p.Self || slices.Contains(here, p.ID), slices.Contains(seats, p.ID)
		if is && slices.Contains(p.Roles, "voter") {
			voters.May++
		}
		if !is && p.Standing != api.Stopped && p.Standing != "left" {
			voters.Away[p.Name] = doctor.Absent{Since: time.Duration(p.Age * float64(time.Second)), Votes: votes}
		}
		if !is && votes && ps.Coordinator != "" {
			voters.Missing = append(voters.Missing, p.Name)
		}
		if p.Self {
			continue
		}
		if p.Name == own.Name && p.Standing != "left" {
			names = append(names, p.ID)
		}
		if !is {
			continue
		}
		versions.Others[p.Name] = p.Version
		sortLink(&links, p)
	}
	f.Voters, f.Versions, f.Names, f.Links = doctor.Is(voters), doctor.Is(versions), doctor.Is(names), doctor.Is(links)
	f.Cgroup = c.cgroup(own)
}

// sortLink files a peer by how it is reached.
func sortLink(links *doctor.Links, p api.Peer) {
	switch p.Path {
	case "direct":
		links.Direct = append(links.Direct, p.Name)
	case "relayed":
		links.Relayed = append(links.Relayed, p.Name)
	default:
		links.None = append(links.None, p.Name)
	}
}

// cgroup is what a trial at the start of this peer found.
func (c *Clinic) cgroup(own api.Peer) doctor.Known[doctor.Cgroup] {
	if runtime.GOOS != "linux" {
		return doctor.NotTried[doctor.Cgroup]("there are none on " + runtime.GOOS)
	}
	return doctor.Is(doctor.Cgroup{Made: slices.Contains(own.Holds, "cgroup"), Why: c.cfg.Lacks()["cgroup"]})
}
