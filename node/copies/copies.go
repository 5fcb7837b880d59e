package copies

import (
	"context"
	"errors"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

const (
	lookTime     = 2 * time.Second  // to answer now
	lookAgain    = 2 * time.Second  // while there are two
	firstLook    = 10 * time.Second // after a peer was met, for its proof; up to twice that
	maxLookQueue = 1024
)

// Config is what copies act on.
type Config struct {
	Self   taskstate.PeerID
	Start  starts.Start
	Sign   func([]byte) ([]byte, error)
	OnEach func(ctx context.Context, peer, protocol string) []net.Conn
	Say    *troubles.Troubles
	Halt   func(on bool) // stop voting and taking tasks, or go on
	Name   func(string) string
	Log    *slog.Logger
}

// Copies finds processes that go by one key. Run owns the looking; what others ask is answered on
// their own goroutines.
type Copies struct {
	cfg     Config
	history starts.History
	queue   chan string
	turn    wake.Signal // the halt changed

	mu     sync.Mutex
	known  map[taskstate.PeerID]known
	asked  map[taskstate.PeerID]bool // in the queue
	double map[taskstate.PeerID]bool // there are two of them
	other  bool                      // another process uses our key
	looks  map[taskstate.PeerID]chan struct{}
}

// known is the start that a peer was met as last.
type known struct {
	number uint64
	looked bool // it proved that to this peer; otherwise it was only said
}

// New returns one that has met no peer yet; Run looks at the peers that Ask and Heard name.
func New(cfg Config) *Copies {
	return &Copies{
		cfg: cfg, queue: make(chan string, maxLookQueue), turn: wake.New(),
		known: map[taskstate.PeerID]known{}, asked: map[taskstate.PeerID]bool{},
		double: map[taskstate.PeerID]bool{}, looks: map[taskstate.PeerID]chan struct{}{},
	}
}

// Run looks at peers until ctx ends.
func (c *Copies) Run(ctx context.Context) error {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.turn:
			c.cfg.Halt(c.Halted())
		case p := <-c.queue:
			c.mu.Lock()
			delete(c.asked, p)
			c.mu.Unlock()
			c.look(ctx, p)
		case <-again.C:
			for _, p := range c.doubles() {
				c.look(ctx, p)
			}
		}
	}
}

func (c *Copies) doubles() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.double {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// Ask has a peer looked at soon. It never blocks: if very many wait, one that is met again is asked
// then.
func (c *Copies) Ask(peer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked[peer] || peer == c.cfg.Self {
		return
	}
	select {
	case c.queue <- peer:
		c.asked[peer] = true
	default:
	}
}

// Heard hears which start a peer says it is. It never blocks.
func (c *Copies) Heard(peer string, start starts.Start) {
	if start.IsZero() || peer == c.cfg.Self {
		return
	}
	c.mu.Lock()
	was, met := c.known[peer]
	if !met {
		c.known[peer] = known{number: start.Number}
	}
	c.mu.Unlock()
	switch {
	case !met:
		time.AfterFunc(firstLook+mrand.N(firstLook), func() { c.Ask(peer) })
	case was.number != start.Number:
		c.Ask(peer)
	}
}

// Vet tells whether a peer that says Hello as a start may have a session: not while two processes
// answer for it.
func (c *Copies) Vet(peer string, start starts.Start) error {
	if peer == c.cfg.Self {
		return nil
	}
	c.mu.Lock()
	was := c.known[peer]
	c.mu.Unlock()
	if !start.IsZero() && was != (known{start.Number, true}) {
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		c.look(ctx, peer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.double[peer] {
		return errors.New("another process goes by the same identity: both wait for a person (`peer status` there)")
	}
	return nil
}

// Halted tells whether another process goes by our key.
func (c *Copies) Halted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other
}

// Copied is why a worker takes nothing on while there are two of it.
type Copied struct{}

func (Copied) Error() string {
	return "another process goes by this peer's identity: it takes nothing until a person decides (`peer status` there)"
}

// Code implements worker.Coded.
func (Copied) Code() string { return api.TroubleCopied }
