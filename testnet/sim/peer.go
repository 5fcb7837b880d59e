package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memjournal"
	"github.com/coveyproject/covey/trust/policy"
)

// peer is a machine: what is left of it when its process ends.
type peer struct {
	w     *world
	n     int
	id    taskstate.PeerID
	voter bool
	offer taskstate.Resources
	full  *taskstate.Resources // what it was, before it changed
	sells taskstate.Resources  // the offer it was last told to make

	life   *life // the process; nil while none runs
	lives  uint64
	off    bool          // no power: nobody answers, nothing resets
	gone   bool          // for good
	frozen time.Duration // until then nothing of it moves (but its tasks)
	clock  time.Duration // how far its wall clock is off

	inc      taskstate.Incarnation
	incs     int
	disk     memjournal.Journal
	older    memjournal.Journal // as it was one write ago, for a Break
	slowDisk int                // how many faults make it slow
	badDisk  int                // or refuse
	astray   bool               // the journal is not what it was when this machine last ran
	heedless bool               // it does not hear what others know of it, for a Break
	filled   int                // next to no room, but for what the journal has in reserve
	copy     []byte             // of the ledger, as saved now and then
	shown    heard              // how far workers were
	procs    map[taskstate.TaskID]*proc
	begun    map[taskstate.TaskID]bool                // ever started
	reports  map[taskstate.TaskID]taskstate.RunReport // the ends of its processes: its supervisor keeps them
	left     map[taskstate.TaskID]*left               // what they left in their folders
	staged   map[taskstate.JobID]bool                 // whose inputs are here
	files    fileDisk

	started time.Duration // when it last started a task
	trouble time.Duration // when a fault last touched it, or will have
	pains   int           // faults that touch it now
	idles   int           // of those, how many have it start nothing it gets
	lied    time.Duration // when it did so last

	policy    policy.Policy
	misleads  int // as coordinator, it gives tasks that nobody asked for
	withholds int // as coordinator, it does nothing of what people ask for
}

func newPeer(w *world, n int) *peer {
	p := &peer{w: w, n: n, id: fmt.Sprintf("p%02d", n), voter: n < 5, procs: map[taskstate.TaskID]*proc{}, begun: map[taskstate.TaskID]bool{}, reports: map[taskstate.TaskID]taskstate.RunReport{}}
	p.offer = taskstate.Resources{MilliCPU: int64(w.between(1, 4)) * 1000, Memory: int64(w.between(1, 4)) << 30}
	p.newDisk()
	return p
}

// newDisk begins with nothing.
func (p *peer) newDisk() {
	p.newJournal()
	p.newFiles()
	p.copy, p.shown = nil, heard{}
}

// newJournal begins a new incarnation.
func (p *peer) newJournal() {
	p.incs++
	p.inc = taskstate.Incarnation(fmt.Sprintf("%s-%d", p.id, p.incs))
	p.blankJournal()
}

// blankJournal forgets what the worker wrote down.
func (p *peer) blankJournal() {
	d, err := memjournal.New(simOwner(p.id, p.inc))
	if err != nil {
		p.w.fail("bug", "a new journal: %v", err)
		return
	}
	p.disk, p.older = d, d.Clone()
}

// up tells whether its process runs.
func (p *peer) up() bool { return p.life != nil }

// wall is what the machine's clock says. (The time Go programs measure durations with is not
// changed by a step.)
func (p *peer) wall() time.Time { return birth.Add(p.w.now() + p.clock) }

// life is one process.
type life struct {
	w    *world
	p    *peer
	n    uint64
	dead bool

	replica   *ledger.Replica
	table     *taskstate.Table
	digest    *digest.Store
	seen      map[taskstate.TaskID]taskstate.Status // newest news of each task, for I2
	views     []view
	hint      hint
	book      bool // gossip remembers who there was before
	refilling bool
	asking    bool // an exchange of digests for a gap is planned
	links     map[*link]uint64
	counted   uint64

	worker   *workerCore
	workers  int  // of this process: more than one if its journal was found to be old
	rebooted bool // the machine was off before
	client   client
	journal  journalWriter
	stopping bool
	saving   map[taskstate.TaskID]*saving
	shy      map[taskstate.PeerID]time.Duration // until when peers are not asked to keep something
	reading  map[taskstate.TaskID]int           // what is given to others
	fetching int

	leading *leadership
	term    *term
	conns   coordinator.ConnID
}

// hint is who coordinates, as far as one knows.
type hint struct {
	epoch taskstate.Epoch
	peer  *peer
}

func (l *life) count() uint64 { l.counted++; return l.counted }

// mono is the time durations are measured with.
func (l *life) mono() time.Time { return birth.Add(l.w.now()) }

// after calls f when d has passed, if the process still lives then, and not while it is frozen.
func (l *life) after(d time.Duration, f func()) {
	l.w.after(d, func() { l.thaw(f) })
}

func (l *life) thaw(f func()) {
	switch {
	case l.dead:
	case l.p.frozen > l.w.now():
		l.w.after(l.p.frozen-l.w.now()+l.w.ms(0, 3), func() { l.thaw(f) })
	default:
		f()
	}
}

// boot starts the process, if none runs.
func (p *peer) boot() {
	if p.life != nil || p.gone {
		return
	}
	w := p.w
	rebooted := p.off
	p.off = false
	p.lives++
	l := &life{
		w: w, p: p, n: p.lives, replica: ledger.NewReplica(), digest: digest.NewStore(0), views: make([]view, len(w.peers)),
		seen: map[taskstate.TaskID]taskstate.Status{}, links: map[*link]uint64{}, saving: map[taskstate.TaskID]*saving{},
		shy: map[taskstate.PeerID]time.Duration{}, reading: map[taskstate.TaskID]int{},
	}
	l.book = w.chance(0.5)
	if p.copy != nil && w.chance(0.7) {
		if st, err := ledger.DecodeState(p.copy); err != nil {
			w.fail("bug", "a saved copy does not load: %v", err)
		} else {
			l.replica.Reset(st)
		}
	}
	if w.cfg.Break != BreakBelieveAll {
		l.replica.Verify(unsealed)
	}
	park := 0
	if w.cfg.Seed%8 == 5 {
		park = 3
	}
	l.table = taskstate.NewTable(l.replica, park)
	l.replica.Observe(func(ev ledger.Event) {
		if news := ledger.KeepUp(l.table, ev); len(news) > 0 {
			w.check.news(l, news)
		}
	})
	l.keepLives(ledger.Event{Reset: true})
	l.replica.Observe(l.keepLives)
	l.replica.Observe(l.heard)
	l.replica.Observe(func(ledger.Event) {
		if l.table.Spilled() && !l.refilling {
			l.refilling = true
			l.after(w.ms(0, 1000), l.refill)
		}
	})
	p.life = l
	l.client = client{l: l}
	l.rebooted = rebooted
	l.work()
	l.live()
	l.careFor()
	l.client.next()
}

// work begins a worker with what is in the journal.
func (l *life) work() {
	w, p := l.w, l.p
	l.workers++
	worker, begun, err := newWorkerCore(p.id, p.inc, session.Offer{Resources: w.sold(p), Name: p.id}, p.disk, workerPorts{l, l.workers}, p.wall())
	if err != nil {
		w.fail("bug", "%s cannot read its journal: %v", p.id, err)
		return
	}
	if w.tracing() {
		w.tracef("%s begins, life %d, incarnation %s, ledger at %d, takes up %d", p.id, p.lives, p.inc, l.replica.Applied(), len(begun))
	}
	l.worker = worker
	l.worker.Begin(l.adopt(begun), p.wall())
	p.sayFull()
}

// live begins what a process does by itself.
func (l *life) live() {
	w := l.w
	l.every(700*time.Millisecond, 1300*time.Millisecond, l.look)
	l.every(8*time.Second, 12*time.Second, func() { l.exchange(l.someone()) })
	l.every(500*time.Millisecond, 1500*time.Millisecond, l.catchUp)
	l.every(20*time.Second, 120*time.Second, l.saveCopy)
	l.after(w.ms(1, 100), l.catchUp)
	l.after(w.ms(1, 300), l.look)
	l.after(w.ms(50, 500), func() { l.exchange(l.someone()) })
}

// every calls f again and again, at uneven intervals.
func (l *life) every(lo, hi time.Duration, f func()) {
	d := lo + time.Duration(l.w.rng.Int64N(int64(hi-lo)))
	l.after(d, func() {
		f()
		l.every(lo, hi, f)
	})
}

// saveCopy keeps the replica on disk, as a peer that follows does.
func (l *life) saveCopy() {
	if l.replica.Applied() == 0 {
		return
	}
	b, err := l.replica.Encode()
	if err != nil {
		l.w.fail("bug", "the replica of %s does not encode: %v", l.p.id, err)
		return
	}
	l.p.copy = b
}

// kill ends the process without warning. power says that the whole machine went down.
func (p *peer) kill(power bool) {
	l := p.life
	if l == nil {
		return
	}
	w := p.w
	w.tracef("%s dies (power %t)", p.id, power)
	l.journal.crash()
	clear(p.files.coming)
	p.unshow()
	l.dead, p.life, p.off = true, nil, power
	p.frozen = 0
	w.quorum.died(l)
	l.term, l.leading = nil, nil
	links := make([]*link, 0, len(l.links))
	for x := range l.links {
		links = append(links, x)
	}
	slices.SortFunc(links, func(a, b *link) int { return int(l.links[a]) - int(l.links[b]) })
	for _, x := range links {
		if power {
			x.vanish()
		} else {
			x.abort()
		}
	}
	if power {
		p.loseEnds(l)
	}
	for _, id := range p.running() {
		if r := p.procs[id]; power || r.inside {
			p.lose(r)
		} else {
			r.life = nil // it goes on, and nobody listens
		}
	}
	w.stats.Restarts++
}

// sold is what a peer says it offers.
func (w *world) sold(p *peer) taskstate.Resources {
	if w.cfg.Break == BreakOversell {
		return p.offer.Add(p.offer)
	}
	return p.offer
}
