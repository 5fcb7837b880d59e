package clinic

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/doctor"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

const (
	patience     = 2 * time.Second // of a probe
	dialPatience = 4 * time.Second // of one that dials
	askPatience  = 7 * time.Second // until another peer has looked at itself
	linePatience = 5 * time.Second // until a large message has come
	fresh        = 10 * time.Second
	asked        = 8 // peers that a probe asks, at most
)

// Config is what a Clinic looks at. Functions may be called by several at once.
type Config struct {
	Self    taskstate.PeerID
	Version string
	Dir     string // the data folder
	Room    func() (supervise.Room, error)

	Dial    func(ctx context.Context, peer, protocol string) (net.Conn, error)
	Members func() *membership.View
	Name    func(taskstate.PeerID) string
	Peer    func(ctx context.Context, word string) (api.PeerAnswer, error)
	Peers   func(context.Context) (api.Peers, error)
	Seats   func() []taskstate.PeerID
	Elected func(since time.Time) int // coordinators
	Wrong   func(context.Context) (known []api.Trouble, warnings []string)
	Lacks   func() map[string]string // what this machine does not hold tasks to, and why

	Net Network
}

// Network is how others reach this peer: a p2p.Host, which says more of each.
type Network interface {
	Port() int
	Addrs() []string
	Connected(peer string) (direct, relayed bool)
	// Reach asks a peer to dial this one by TCP; known is false where that could not be tried.
	Reach(ctx context.Context, peer string) (known, reached bool)
	// DialUDP dials a peer that asked for it.
	DialUDP(ctx context.Context, peer string, ports []uint16) (known, reached bool)
	PortsUDP() []uint16
	// Listens reports whether a process accepts TCP connections at an address.
	Listens(ctx context.Context, addr string) bool
	// Outside gives where this peer's datagrams come from, as others see it, until ctx ends.
	Outside(ctx context.Context) []netip.AddrPort
	Places() int
	Punched() (well, not int)
	LAN() p2p.LAN
	Bridges() []string
}

// Clinic looks at this peer, and asks others.
type Clinic struct {
	cfg     Config
	serving *limit.Limit
	disk    disk

	mu   sync.Mutex // held while this peer is looked at: one look at a time
	last api.Checkup
}

// New looks at nothing yet.
func New(cfg Config) *Clinic {
	if cfg.Room == nil {
		cfg.Room = func() (supervise.Room, error) { return supervise.RoomOf(cfg.Dir) }
	}
	return &Clinic{cfg: cfg, serving: limit.New(served, 2), disk: disk{dir: cfg.Dir}}
}

// Examine implements api.DoctorBackend.
func (c *Clinic) Examine(ctx context.Context, word string) (api.Checkup, error) {
	a, err := c.cfg.Peer(ctx, word)
	if err != nil {
		return api.Checkup{}, err
	}
	if a.Peer.Self {
		return c.self(ctx, 0), nil
	}
	return c.other(ctx, a.Peer), nil
}

// self looks at this peer, or gives what a look found that ended no longer ago, or meanwhile.
func (c *Clinic) self(ctx context.Context, age time.Duration) api.Checkup {
	since := time.Now().Add(-age)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.AsOf.After(since) {
		return c.last
	}
	c.last = api.Checkup{
		Peer: c.cfg.Self, PeerName: c.cfg.Name(c.cfg.Self), Version: c.cfg.Version,
		Findings: doctor.Judge(c.facts(ctx)), AsOf: time.Now().UTC(),
	}
	return c.last
}

// other asks a peer; of one that does not answer it says what is known here.
func (c *Clinic) other(ctx context.Context, p api.Peer) api.Checkup {
	out := api.Checkup{Peer: p.ID, PeerName: p.Name, Version: p.Version, AsOf: time.Now().UTC()}
	here := slices.Contains(c.here(), p.ID)
	err := context.Canceled
	if here {
		var a answer
		if a, err = c.ask(ctx, p.ID, question{What: askExamine}, askPatience); err == nil {
			out.Version, out.Findings = cmp.Or(a.Version, p.Version), a.findings()
		}
	}
	if err == nil {
		return out
	}
	f := api.Finding{Check: "peer", Result: api.FindingFail, Do: "see whether it is up: `peer doctor` there says more", Text: "it does not answer"}
	switch {
	case !here:
		f.Text = fmt.Sprintf("it cannot be reached (%s): nothing else could be tried", p.Standing)
	case p.Version != "" && p.Version != c.cfg.Version:
		f.Text, f.Do = fmt.Sprintf("it does not answer: its version %s may not know how", p.Version), "type `peer doctor` there, or install this version there"
	}
	out.Findings = append(out.Findings, f)
	if len(p.Troubles) > 0 {
		out.Findings = append(out.Findings, doctor.Troubled(p.Troubles)...)
	}
	return out
}

// here are the other peers that answer, as far as this one knows.
func (c *Clinic) here() (ids []taskstate.PeerID) {
	for m := range c.cfg.Members().Alive() {
		if m.ID != c.cfg.Self {
			ids = append(ids, m.ID)
		}
	}
	return ids
}
