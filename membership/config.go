package membership

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coveyproject/covey/internal/strain"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

// The protocols spoken between admitted peers.
const (
	PacketProtocol = "/covey/member/packet/2" // memberlist packets, one stream per neighbour and direction
	SyncProtocol   = "/covey/member/sync/2"   // memberlist push/pull and stream pings
	ProbeProtocol  = "/covey/probe/1"         // "is it gone for you too?"
)

// Host is the part of p2p.Host that knows where peers are. Both methods are called without locks
// held, except that SetAddrs must not block.
type Host interface {
	// SetAddrs remembers where a peer is.
	SetAddrs(peer string, addrs []string)
	// Connect dials afresh and ends with a round trip. p2p.Refused tells whether the other machine
	// refused.
	Connect(ctx context.Context, peer string, addrs []string) error
}

// Config is what a Membership is made of.
type Config struct {
	Net         p2p.Net               // streams; required
	Host        Host                  // addresses and deliberate connects; required
	Name        string                // what people call this peer
	Incarnation taskstate.Incarnation // of this peer's data folder
	Seat        taskstate.Incarnation // of this peer's seat among the voters; see SetSeat
	Start       starts.Start          // of this program
	Addrs       func() []string       // own multiaddrs, best first; asked again every few seconds. nil: none
	Roles       []admission.Role      // own roles, for others to see; the roster decides
	Version     string                // of this program
	Recipient   string                // what others seal to when only this peer is to open it; told as it is
	// Sign makes this peer's signature, Verify checks another's: members' words about themselves
	// are signed. Both or neither.
	Sign     func(data []byte) ([]byte, error)
	Verify   func(peer string, data, sig []byte) error
	Admitted func(peer string) bool // may this peer be a member? nil: everybody. Quick, calls nothing of this package
	Deciders func() []string        // who has a vote, as far as known; asked when members change. nil: nobody
	Book     string                 // path of the peer book; "": it is not kept
	Expect   int                    // how many peers the cluster has, if known (size of the roster); chooses the timings
	Timings  Timings                // zero fields take the default for that many peers
	Log      *slog.Logger           // nil: silent
	strained func() bool            // strain.Recent, but for tests
}

// Timings say how quickly silence is noticed and what that costs. Zero fields mean the default.
type Timings struct {
	Probe        time.Duration // one member is probed so often
	ProbeTimeout time.Duration // without an answer for so long, others are asked to probe it
	Suspicion    int           // a suspect is dead after about Suspicion × Probe × log10(members, at least 10)
	Patience     int           // … times so much while nobody else confirms it (in effect from a Suspicion of 3)
	Gossip       time.Duration // news goes to three members so often, while there is any
	PushPull     time.Duration // everything is exchanged with one member so often
	Retry        time.Duration // an absent peer of the book is tried so often
	RetryFast    time.Duration // the same while alone or newly started
	Young        time.Duration // how long "newly started" is
}

// LargeCluster is the number of peers above which DefaultTimings are those of a LAN.
const LargeCluster = 50

// DefaultTimings notices a silent peer in about three seconds in a small cluster, and costs less
// than a thousandth of a core there: most of it is waking up, for 1.4 probes a second and as many
// of others. Above LargeCluster peers they are memberlist's LAN values (eight to ten seconds): the
// faster ones suspect peers that live while a hundred peers start together.
func DefaultTimings(peers int) Timings {
	t := Timings{
		Probe: 700 * time.Millisecond, ProbeTimeout: 300 * time.Millisecond, Suspicion: 2, Patience: 2,
		Gossip: 100 * time.Millisecond, PushPull: 10 * time.Second,
		Retry: 15 * time.Second, RetryFast: time.Second, Young: 30 * time.Second,
	}
	if peers > LargeCluster {
		t.Probe, t.ProbeTimeout, t.Suspicion, t.Patience = time.Second, 500*time.Millisecond, 4, 6
		t.Gossip = 200 * time.Millisecond
	}
	return t
}

func (t Timings) or(d Timings) Timings {
	fill := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	fill(&t.Probe, d.Probe)
	fill(&t.ProbeTimeout, min(d.ProbeTimeout, t.Probe/2))
	fill(&t.Gossip, d.Gossip)
	fill(&t.PushPull, d.PushPull)
	fill(&t.Retry, d.Retry)
	fill(&t.RetryFast, d.RetryFast)
	fill(&t.Young, d.Young)
	if t.Suspicion <= 0 {
		t.Suspicion = d.Suspicion
	}
	if t.Patience <= 0 {
		t.Patience = d.Patience
	}
	return t
}

func (c *Config) normalize() error {
	if c.Net == nil || c.Host == nil {
		return errors.New("membership: Config.Net and Config.Host are required")
	}
	if (c.Sign == nil) != (c.Verify == nil) {
		return errors.New("membership: Config.Sign and Config.Verify belong together")
	}
	if c.Deciders == nil {
		c.Deciders = func() []string { return nil }
	}
	if c.Addrs == nil {
		c.Addrs = func() []string { return nil }
	}
	if c.Admitted == nil {
		c.Admitted = func(string) bool { return true }
	}
	if c.strained == nil {
		c.strained = strain.Recent
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}
