package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// CoordConfig sets a Coord up. Ledger, OpenEnvelope and Probe are its ports to the rest of the node.
type CoordConfig struct {
	Core   CoordinatorConfig
	Ledger ledger.Ledger
	// OpenEnvelope checks the signature of a batch that came on a peer's session, keeps it for others, and returns what is in
	// it. Called from the session's reader. An error ends the session.
	OpenEnvelope func(peer string, envelope []byte) (taskstate.Batch, error)
	// Probe dials a peer and fails if it does not answer. nil: nobody ever answers.
	Probe func(ctx context.Context, peer taskstate.PeerID) error

	HelloTimeout time.Duration // a stream without a Hello for so long is closed: 5 s
	WriteTimeout time.Duration // of one flush: 10 s
	SendQueue    int           // frames that may wait for a slow worker before its session ends: 256
	Log          *slog.Logger
}

func (cfg CoordConfig) withDefaults() CoordConfig {
	if cfg.HelloTimeout <= 0 {
		cfg.HelloTimeout = 5 * time.Second
	}
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = 10 * time.Second
	}
	if cfg.SendQueue <= 0 {
		cfg.SendQueue = 256
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Core.Log == nil {
		cfg.Core.Log = cfg.Log
	}
	if cfg.Probe == nil {
		cfg.Probe = func(context.Context, taskstate.PeerID) error { return errors.New("no way to probe") }
	}
	cfg.Core = cfg.Core.withDefaults()
	return cfg
}

// Coord is the coordinator's loop as a peer runs it: idle until the ledger says that this peer leads, then a Coordinator, its
// sessions and its proposals, driven by one goroutine. Its methods are safe for concurrent use.
type Coord struct {
	cfg       CoordConfig
	conns     atomic.Uint64
	standings atomic.Pointer[map[taskstate.PeerID]Standing]

	mu       sync.Mutex
	term     *term // nil while not leading
	verdicts map[taskstate.PeerID]PeerVerdict
}

// NewCoord prepares a Coord. It starts nothing.
func NewCoord(cfg CoordConfig) *Coord {
	return &Coord{cfg: cfg.withDefaults(), verdicts: map[taskstate.PeerID]PeerVerdict{}}
}

// ErrNotLeading answers questions that only a coordinator can.
var ErrNotLeading = errors.New("this peer does not coordinate")

// Run coordinates in one epoch and returns when ctx ends: with all sessions closed, so that workers look for the next
// coordinator at once, and nothing running. The ledger calls it after the barrier of its term.
func (c *Coord) Run(ctx context.Context, epoch taskstate.Epoch) {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	for wait := first; ctx.Err() == nil; wait = min(2*wait, most) {
		why := c.runOnce(ctx, epoch)
		if ctx.Err() != nil {
			return
		}
		c.cfg.Log.Warn("coordinator starts over from the ledger", "epoch", epoch, "why", why, "in", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// runOnce is the life of one core.
func (c *Coord) runOnce(ctx context.Context, epoch taskstate.Epoch) (why string) {
	ctx, stop := context.WithCancel(ctx)
	t := &term{
		coord: c, cfg: c.cfg, ctx: ctx, epoch: epoch,
		events: make(chan termEvent, 1024), asks: make(chan func(*Coordinator)), links: map[ConnID]*link{},
	}
	t.box.bell = make(chan struct{}, 1)
	replica := c.cfg.Ledger.Replica()
	silence := replica.Observe(t.heard)
	replica.Read(func(st *ledger.State) { t.core = NewCoordinator(c.cfg.Core, epoch, st, time.Now()) })
	c.enter(t)
	why = t.loop()
	stop()
	silence()
	c.leave()
	t.closeAll()
	t.work.Wait()
	return why
}

// enter opens the doors: sessions are served and verdicts heard from now on.
func (c *Coord) enter(t *term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = t
	for _, v := range c.verdicts {
		t.box.put(v)
	}
}

func (c *Coord) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term = nil
	c.standings.Store(nil)
}

// Verdict hears what gossip here says about a peer, and since when. It may be called at any time and returns at once.
func (c *Coord) Verdict(peer taskstate.PeerID, v Verdict, since time.Time) {
	ev := PeerVerdict{Peer: peer, Verdict: v, Since: since}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verdicts[peer] = ev
	if c.term != nil {
		c.term.box.put(ev)
	}
}

// Standings is how this coordinator sees every member; nil while it does not coordinate. The map is not to be changed.
func (c *Coord) Standings() map[taskstate.PeerID]Standing {
	if m := c.standings.Load(); m != nil {
		return *m
	}
	return nil
}

// Waiting tells why a job has slots that nobody runs; "" if there are none.
func (c *Coord) Waiting(ctx context.Context, job taskstate.JobID) (why string, err error) {
	err = c.ask(ctx, func(core *Coordinator) { why = core.Waiting(job) })
	return why, err
}

// Peers tells what every member offers and carries, by id.
func (c *Coord) Peers(ctx context.Context) (peers []PeerLoad, err error) {
	err = c.ask(ctx, func(core *Coordinator) { peers = core.Peers() })
	return peers, err
}

// ask has the owner of the core answer a question.
func (c *Coord) ask(ctx context.Context, f func(*Coordinator)) error {
	c.mu.Lock()
	t := c.term
	c.mu.Unlock()
	if t == nil {
		return ErrNotLeading
	}
	done := make(chan struct{})
	select {
	case t.asks <- func(core *Coordinator) { f(core); close(done) }:
		<-done // the owner is at it
		return nil
	case <-t.ctx.Done():
		return ErrNotLeading
	case <-ctx.Done():
		return ctx.Err()
	}
}

// term is one core with everything around it.
type term struct {
	coord *Coord
	cfg   CoordConfig
	ctx   context.Context
	epoch taskstate.Epoch

	box    eventBox                // what must not wait for the owner: ledger, verdicts, outcomes
	events chan termEvent          // what may: sessions. Full: their readers wait, and so do their workers
	asks   chan func(*Coordinator) // questions
	work   sync.WaitGroup          // proposals, probes, sessions

	// For the owner alone.
	core  *Coordinator
	links map[ConnID]*link
	late  []CoordEvent // found while effects were carried out
	shown uint64
	over  string // why this core is over
}

// termEvent is an event of a session; the first one brings the link.
type termEvent struct {
	ev   CoordEvent
	link *link
}

// heard is the ledger's observer.
func (t *term) heard(ev ledger.Event) {
	if ev.Reset {
		t.box.put(termOver{"the ledger was replaced"})
		return
	}
	t.box.put(LedgerApplied{Entry: ev.Entry, Results: ev.Results})
}

// termOver ends the core from outside.
type termOver struct{ why string }

func (termOver) coordEvent() {}

// loop owns the core: it waits until something has happened, takes all that has, and carries out what follows.
func (t *term) loop() string {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var evs []CoordEvent
	t.turn(nil)
	for t.over == "" {
		if at := t.core.Wake(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(0, time.Until(at)))
		}
		evs = append(evs[:0], t.late...)
		t.late = t.late[:0]
		if len(evs) == 0 {
			select {
			case <-t.ctx.Done():
				return "the epoch is over"
			case f := <-t.asks:
				f(t.core)
				continue
			case <-timer.C:
			case <-t.box.bell:
			case ev := <-t.events:
				evs = t.admit(evs, ev)
			}
		}
		t.turn(t.gather(evs))
	}
	return t.over
}

// gather adds what else has happened meanwhile: first the ledger, so that outcomes never come before what they are about.
func (t *term) gather(evs []CoordEvent) []CoordEvent {
	boxed := t.box.take()
	for _, ev := range boxed {
		if o, ok := ev.(termOver); ok {
			t.over = o.why
		}
	}
	evs = append(boxed, evs...)
	for range cap(t.events) {
		select {
		case ev := <-t.events:
			evs = t.admit(evs, ev)
		default:
			return evs
		}
	}
	return evs
}

func (t *term) admit(evs []CoordEvent, ev termEvent) []CoordEvent {
	switch e := ev.ev.(type) {
	case SessionOpened:
		t.links[e.Conn] = ev.link
	case SessionClosed:
		t.drop(e.Conn)
	}
	return append(evs, ev.ev)
}

// turn is one step of the core.
func (t *term) turn(evs []CoordEvent) {
	if t.over != "" {
		return
	}
	for _, e := range t.core.StepAll(evs, time.Now()) {
		t.carryOut(e)
	}
	if n := t.core.changes; n != t.shown || t.coord.standings.Load() == nil {
		t.shown = n
		m := maps.Collect(t.core.Standings())
		t.coord.standings.Store(&m)
	}
}

func (t *term) carryOut(e CoordEffect) {
	switch e := e.(type) {
	case SendDown:
		if l := t.links[e.Conn]; l != nil && !l.send(e.Frame) {
			t.cfg.Log.Warn("session ended: the worker takes in too slowly", "peer", l.peer)
			l.abort()
			t.drop(e.Conn)
			t.late = append(t.late, SessionClosed{Conn: e.Conn})
		}
	case EndSession:
		if l := t.links[e.Conn]; l != nil {
			t.cfg.Log.Debug("session ends", "peer", l.peer, "why", e.Why)
		}
		t.drop(e.Conn)
	case ProposeCommands:
		t.work.Go(func() { t.propose(e.Commands) })
	case ProbePeer:
		t.work.Go(func() {
			ctx, cancel := context.WithTimeout(t.ctx, 3*time.Second)
			defer cancel()
			t.box.put(PeerProbed{Peer: e.Peer, Failed: t.cfg.Probe(ctx, e.Peer) != nil})
		})
	case StartOver:
		t.over = e.Why
	}
}

// propose has commands decided. One whose fate is unknown ends the core: the next one begins from what the ledger then holds.
func (t *term) propose(cmds []ledger.Command) {
	if _, _, err := t.cfg.Ledger.Propose(t.ctx, cmds); err != nil {
		t.box.put(termOver{"a proposal failed: " + err.Error()})
		return
	}
	t.box.put(ProposalDone{})
}

// drop lets a stream end after what was queued for it.
func (t *term) drop(conn ConnID) {
	if l := t.links[conn]; l != nil {
		delete(t.links, conn)
		close(l.out)
	}
}

func (t *term) closeAll() {
	for conn, l := range t.links {
		l.abort()
		t.drop(conn)
	}
}

// eventBox takes events without ever making the sender wait. It is bounded by what fills it: entries of a ledger that this peer
// itself writes, a verdict per peer, an answer per question.
type eventBox struct {
	mu   sync.Mutex
	evs  []CoordEvent
	bell chan struct{}
}

func (b *eventBox) put(ev CoordEvent) {
	b.mu.Lock()
	b.evs = append(b.evs, ev)
	b.mu.Unlock()
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

func (b *eventBox) take() []CoordEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	evs := b.evs
	b.evs = nil
	return evs
}
