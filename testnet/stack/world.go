package stack

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/testnet/history"
)

// Config is one life of a cluster.
type Config struct {
	Seed   uint64
	Peers  int           // 0: three to seven, drawn
	Length time.Duration // of load and faults; 0: a minute and a half. The life goes on until all is at rest
	Far    time.Duration // what any peer of a scene writes to another arrives so much later, from the founding on; 0: up to 20 ms
	Dir    string        // an empty folder for the peers' data
	Break  Break         // what is made wrong on purpose; "" is nothing
	Story  io.Writer     // gets a line for whatever happens; nil: nobody
	Log    slog.Handler  // gets what the peers log; nil: nobody
	Settle func()        // returns when nothing can happen before time passes: synctest.Wait
}

// Violation is a broken invariant.
type Violation struct {
	Rule string // I1 …, clients: what they were told does not fit together, bug: a peer does what no peer should
	At   time.Duration
	What string
	Tail []string // what happened last
}

// Error says which, when and how, and what led to it.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s broken at %v: %s\n%s", v.Rule, v.At, v.What, strings.Join(v.Tail, "\n"))
}

// Result is how a life went.
type Result struct {
	Violation *Violation
	Ops       []history.Op // what clients were told; Judge says whether it fits together
	Stats     Stats
}

// Stats says how much happened, so that a life in which nothing did is seen.
type Stats struct {
	Lives, Peers, Faults, Boots, Wipes   int
	Jobs, Acked, Held, Cancelled         int
	Started, Again, Events, Reads, Waits int
	Clones                               int           // of machines
	Damages                              int           // to what disks held
	Pretenders                           int           // liars that held no seat
	Liars                                int           // peers whose keys were in bad hands for a while
	Crooks, Lies, Withheld               int           // coordinators in bad hands, what they made up, and what they kept from the ledger
	Saved, Copies                        int           // tasks of which files are kept, and how often
	Heals                                int           // of cuts, with nothing else broken for a while
	Slowest                              time.Duration // from the end of the faults until all were at rest
}

// world is everything there is in one life. Its goroutines: fate's, which is Run's and alone does
// harm and good; one for every client; and those of the peers.
type world struct {
	cfg   Config
	birth time.Time
	rng   *rand.Rand // fate's
	wires *memnet.Wires
	peers []*peer
	undo  []func() // of the faults so far; each does nothing when it is done
	wiped bool     // somebody lost its disk

	twin     *peer        // a clone of another
	cuts     atomic.Int64 // so far
	bad      *peer        // whose disk is bad
	orphaned bool         // a disk went, or went back, that knew what had run
	agenda
	check  check
	signed signed
	people people
	told   history.History
	all    sync.WaitGroup // of what Run waits for at the end

	mu        sync.Mutex
	ticket    string
	tail      []string
	violation *Violation
	stats     Stats
}

// Run lives one life. It is called in a bubble, and everything has ended when it returns.
func Run(cfg Config) Result {
	if cfg.Length <= 0 {
		cfg.Length = 90 * time.Second
	}
	w := &world{cfg: cfg, birth: time.Now(), rng: rand.New(rand.NewPCG(cfg.Seed, 0x737461636b)), wires: memnet.NewWires()}
	n := cfg.Peers
	if n <= 0 {
		n = w.between(3, 7)
	}
	w.stats.Lives, w.stats.Peers = 1, n
	w.check.init(w)
	w.temper(n)
	for i := range n {
		w.peers = append(w.peers, newPeer(w, i))
	}
	w.people.init(w)
	w.live()
	w.end()
	return Result{Violation: w.violation, Ops: w.told.Ops(), Stats: w.stats}
}

// live is the life from the founding until all is at rest after the last fault.
func (w *world) live() {
	if !w.found() {
		return
	}
	w.people.begin()
	w.faults()
	w.runUntil(w.now() + w.cfg.Length)
	w.heal()
	w.people.stop()
	w.rest()
}

// found starts the first peer and lets the others join.
func (w *world) found() bool {
	w.peers[0].boot()
	k, err := w.peers[0].invite()
	if err != nil {
		w.fail("bug", "no ticket: %v", err)
		return false
	}
	w.mu.Lock()
	w.ticket = k
	w.mu.Unlock()
	if st, err := w.peers[0].usable().node.Backend().Status(context.Background()); err == nil {
		w.check.founded(st.Cluster)
	}
	for _, p := range w.peers[1:] {
		w.at(w.now()+w.ms(0, 3000), p.boot)
	}
	w.runUntil(w.now() + 5*time.Second)
	return true
}

// end stops every peer in order: each must come to its end.
func (w *world) end() {
	for _, p := range append(slices.Clone(w.peers), w.twin) {
		if p == nil {
			continue
		}
		if l := p.alive(); l != nil {
			l.cancel()
		}
	}
	w.all.Wait()
	time.Sleep(linger)
}

// linger is how long libraries' goroutines may outlive the peers they served: memberlist's last
// probe waits for its answer.
const linger = 10 * time.Second

func (w *world) now() time.Duration { return time.Since(w.birth) }

// fail notes the first broken invariant; the life ends soon after.
func (w *world) fail(rule, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	w.tellf("BROKEN %s: %s", rule, what)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.violation == nil {
		w.violation = &Violation{Rule: rule, At: w.now(), What: what, Tail: append([]string(nil), w.tail...)}
	}
}

func (w *world) broken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violation != nil
}

// tailLength is how much of the story is kept for the person who must understand what broke.
const tailLength = 40

func (w *world) tellf(format string, args ...any) {
	line := fmt.Sprintf("%11.6f ", w.now().Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tail = append(w.tail, line); len(w.tail) > 2*tailLength {
		w.tail = append(w.tail[:0], w.tail[tailLength:]...)
	}
	if w.cfg.Story != nil {
		fmt.Fprintln(w.cfg.Story, line)
	}
}

func (w *world) count(f func(s *Stats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.stats)
}

// chance is true with probability p. Like all that draws, it is fate's alone; clients have draws of
// their own.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// between draws a number, both ends included.
func (w *world) between(lo, hi int) int { return lo + w.rng.IntN(hi-lo+1) }

// ms draws a duration between two numbers of milliseconds.
func (w *world) ms(lo, hi int) time.Duration {
	return time.Duration(w.between(lo*1000, hi*1000)) * time.Microsecond
}
