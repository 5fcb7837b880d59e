package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"covey/taskstate"
)

// Config is one life of a cluster.
type Config struct {
	Seed   uint64
	Peers  int           // 0: ten to fourteen, drawn
	Length time.Duration // of load and faults: ten minutes. The life goes on until everything has come to rest
	Break  Break         // what is made wrong on purpose; "" is nothing
	Trace  io.Writer     // gets a line for whatever happens; nil: nobody
}

// Violation is a broken invariant.
type Violation struct {
	Rule string // I1 …, or clients: what they were told does not fit together
	At   time.Duration
	What string
}

// Error says which, when and how.
func (v *Violation) Error() string { return fmt.Sprintf("%s broken at %v: %s", v.Rule, v.At, v.What) }

// Result is how a life went.
type Result struct {
	Hash      uint64 // of everything that happened, in order
	Violation *Violation
	Stats     Stats
}

// Stats says how much happened, so that a life in which nothing did is seen.
type Stats struct {
	Peers, Events, Entries, Faults, Elections   int
	Jobs, Acked, Tasks, Replaced, Restarts      int
	Sessions, StartOvers, Resyncs, Incarnations int
}

// Add sums two lives.
func (s *Stats) Add(o Stats) {
	s.Peers += o.Peers
	s.Events += o.Events
	s.Entries += o.Entries
	s.Faults += o.Faults
	s.Elections += o.Elections
	s.Jobs += o.Jobs
	s.Acked += o.Acked
	s.Tasks += o.Tasks
	s.Replaced += o.Replaced
	s.Restarts += o.Restarts
	s.Sessions += o.Sessions
	s.StartOvers += o.StartOvers
	s.Resyncs += o.Resyncs
	s.Incarnations += o.Incarnations
}

// Run lives one life.
func Run(cfg Config) Result {
	w := newWorld(cfg)
	w.begin()
	for w.violation == nil && !w.finished && w.sched.next() {
	}
	if w.violation == nil && !w.finished {
		w.fail("I1", "nothing more is to happen, and the life is not over")
	}
	w.stats.Events = int(w.sched.done)
	w.stats.Entries = len(w.quorum.log)
	return Result{Hash: w.sched.hash, Violation: w.violation, Stats: w.stats}
}

// birth is when virtual time begins.
var birth = time.UnixMilli(1_700_000_000_000).UTC()

// world is everything there is.
type world struct {
	cfg    Config
	sched  *scheduler
	rng    *rand.Rand
	peers  []*peer
	byID   map[string]*peer
	net    network
	quorum quorum
	load   load
	check  check
	reader reader
	stats  Stats

	temper    temper
	size      int                          // peers
	batches   map[batchKey]taskstate.Batch // as decoded
	dead      int                          // peers that died for good
	clocks    bool                         // some clock was wrong
	calm      bool                         // the faults are over
	finished  bool
	violation *Violation
}

func newWorld(cfg Config) *world {
	if cfg.Length <= 0 {
		cfg.Length = 10 * time.Minute
	}
	w := &world{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x636f766579)), byID: map[string]*peer{}, batches: map[batchKey]taskstate.Batch{}}
	w.sched = &scheduler{hash: 14695981039346656037}
	w.temper = temper{
		link: pick(w, 8, 8, 8, 100, 400), disk: pick(w, 4, 4, 4, 100, 500), quorum: pick(w, 6, 6, 6, 100, 1000), turn: pick(w, 1, 1, 1, 30, 300),
	}
	n := cfg.Peers
	if n <= 0 {
		n = w.between(10, 14)
	}
	for i := range n {
		p := newPeer(w, i)
		w.peers = append(w.peers, p)
		w.byID[p.id] = p
	}
	w.stats.Peers, w.size = n, n
	w.net.init(w, n)
	w.quorum.init(w)
	w.load.init(w)
	w.check.init(w)
	w.reader.init(w)
	return w
}

// begin lets everything start.
func (w *world) begin() {
	for _, p := range w.peers {
		w.after(w.ms(0, 500), p.boot)
	}
	w.quorum.begin()
	w.load.begin()
	w.faults()
	w.check.begin()
	w.reader.look()
	w.after(w.cfg.Length, w.end)
}

// temper is how slow things are in one life when nothing is the matter: most milliseconds.
type temper struct{ link, disk, quorum, turn int }

func (w *world) now() time.Duration { return w.sched.now }

// after calls f when d has passed.
func (w *world) after(d time.Duration, f func()) { w.sched.at(w.sched.now+max(0, d), f) }

func (w *world) fail(rule, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Rule: rule, At: w.now(), What: fmt.Sprintf(format, args...)}
		w.tracef("BROKEN %v", w.violation)
	}
}

// tracef tells a reader what happens. It costs nothing when nobody reads; callers on hot paths ask
// tracing first.
func (w *world) tracef(format string, args ...any) {
	if w.cfg.Trace != nil {
		fmt.Fprintf(w.cfg.Trace, "%11.6f ", w.now().Seconds())
		fmt.Fprintf(w.cfg.Trace, format+"\n", args...)
	}
}

func (w *world) tracing() bool { return w.cfg.Trace != nil }

// chance is true with probability p.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// between draws a number, both ends included.
func (w *world) between(lo, hi int) int { return lo + w.rng.IntN(hi-lo+1) }

// ms draws a duration between two numbers of milliseconds, down to the microsecond.
func (w *world) ms(lo, hi int) time.Duration {
	return time.Duration(w.between(lo*1000, hi*1000)) * time.Microsecond
}

// pick draws one of several.
func pick[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }
