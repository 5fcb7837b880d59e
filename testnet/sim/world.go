package sim

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
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
	Saved, Copies, Owed                         int
	Lies, Refused                               int
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
	s.Saved += o.Saved
	s.Copies += o.Copies
	s.Owed += o.Owed
	s.Lies += o.Lies
	s.Refused += o.Refused
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
	orders orders
	stats  Stats

	temper    temper
	withFiles bool                         // jobs have inputs and outputs
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
	w.drawStores()
	w.net.init(w, n)
	w.orders.init(w)
	for _, p := range w.peers {
		p.drawPolicy(w.peers)
	}
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

// commands describes an entry for a reader.
func commands(cmds []ledger.Command, results []ledger.Result) string {
	var b bytes.Buffer
	for i, c := range cmds {
		switch {
		case c.Found != nil:
			fmt.Fprint(&b, "found ")
		case c.Lead != nil:
			fmt.Fprint(&b, "lead ")
		case c.Admit != nil:
			fmt.Fprint(&b, "admit ", c.Admit.Entry.Peer, " ")
		case c.Submit != nil:
			fmt.Fprint(&b, "submit ", c.Submit.Job.ID, " ")
		case c.Cancel != nil:
			fmt.Fprint(&b, "cancel ", c.Cancel.Job, " ")
		case c.Assign != nil:
			fmt.Fprint(&b, "assign ", c.Assign.Job, c.Assign.Slots, " to ", c.Assign.Incarnation, " ")
		case c.Settle != nil:
			fmt.Fprint(&b, "settle by ", c.Settle.Incarnation, " ")
			for _, s := range c.Settle.Statuses {
				fmt.Fprint(&b, s.Task, "=", s.State, " ")
			}
		case c.Supersede != nil:
			fmt.Fprint(&b, "supersede ", c.Supersede.Task, " ", c.Supersede.Reason, " again ", c.Supersede.Again, " ")
		case c.Depart != nil:
			fmt.Fprint(&b, "depart ", c.Depart.Peer, " ")
		case c.Update != nil:
			fmt.Fprintf(&b, "update %s: %d of %+v, %+v ", c.Update.Job.ID, c.Update.Job.Count, c.Update.Job.Run.Noop, c.Update.Job.Update)
		case c.Renew != nil:
			fmt.Fprintf(&b, "renew %+v ", *c.Renew)
		case c.Retire != nil:
			fmt.Fprintf(&b, "retire %+v ", *c.Retire)
		case c.Grow != nil:
			fmt.Fprintf(&b, "grow %+v ", *c.Grow)
		case c.Rollout != nil:
			fmt.Fprintf(&b, "rollout %+v ", *c.Rollout)
		case c.Avail != nil:
			fmt.Fprintf(&b, "avail %+v ", *c.Avail)
		case c.Label != nil:
			fmt.Fprintf(&b, "label %+v ", *c.Label)
		case c.Register != nil:
			fmt.Fprint(&b, "register ", c.Register.Incarnation, " ")
		}
		if i < len(results) && results[i].Refused != ledger.CodeNone {
			fmt.Fprintf(&b, "REFUSED %s %v %v ", results[i].Refused, results[i].Slots, results[i].Statuses)
		}
	}
	return b.String()
}

// scheduler is virtual time: a heap of what is to happen. Of two things at the same moment the one
// planned first comes first.
type scheduler struct {
	now  time.Duration
	seq  uint64
	done uint64
	hash uint64
	heap []planned
}

type planned struct {
	at  time.Duration
	seq uint64
	f   func()
}

func (p planned) before(o planned) bool { return p.at < o.at || p.at == o.at && p.seq < o.seq }

func (s *scheduler) at(t time.Duration, f func()) {
	s.seq++
	s.heap = append(s.heap, planned{t, s.seq, f})
	i := len(s.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !s.heap[i].before(s.heap[up]) {
			break
		}
		s.heap[i], s.heap[up] = s.heap[up], s.heap[i]
		i = up
	}
}

// next lets the next thing happen; false if there is none.
func (s *scheduler) next() bool {
	if len(s.heap) == 0 {
		return false
	}
	p := s.pop()
	s.now = p.at
	s.done++
	s.mix(uint64(p.at))
	s.mix(p.seq)
	p.f()
	return true
}

func (s *scheduler) pop() planned {
	top, k := s.heap[0], len(s.heap)-1
	s.heap[0] = s.heap[k]
	s.heap[k] = planned{}
	s.heap = s.heap[:k]
	i := 0
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < k && s.heap[c].before(s.heap[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}

// mix takes a number into the hash of what happened (FNV-1a, a word at a time).
func (s *scheduler) mix(x uint64) { s.hash = (s.hash ^ x) * 1099511628211 }

func (s *scheduler) mixBytes(b []byte) {
	for _, c := range b {
		s.mix(uint64(c))
	}
}
