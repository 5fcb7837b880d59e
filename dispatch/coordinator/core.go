package coordinator

import (
	"log/slog"
	"time"

	"covey/dispatch/coordinator/freeze"
	"covey/dispatch/ledger"
	"covey/dispatch/session"
	"covey/taskstate"
)

// CoreConfig sets a Coordinator up. Zero fields take the defaults named.
type CoreConfig struct {
	Self        taskstate.PeerID
	Beat        time.Duration // how often a worker beats: 1 s
	Grace       time.Duration // a session without a sign of life for so long is over: 3 beats
	Seed        uint64        // breaks ties in placement
	Outstanding int           // most tasks on one peer that have not ended: 4096
	MaxAhead    int           // most tasks queued on one peer beyond what fits: 2048
	AheadWindow time.Duration // a peer's queue is as long as what it finished in about this time: 100 ms
	// Peers whose tasks are given up at once, at least (a quarter of them all, if that is more): 3.
	// And how long it takes until one more may be: 5 s.
	ReplaceBurst int
	ReplaceEvery time.Duration

	// StartWithin is how long a worker may have room for a task, by its own reports, and not start
	// it. 0: 30 s.
	StartWithin time.Duration
	Pipeline    int          // proposals under way at once: 2
	FrameBudget int          // bytes a frame may be estimated at: 512 KiB
	Log         *slog.Logger // nil: silent
}

func (cfg CoreConfig) withDefaults() CoreConfig {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	if cfg.Beat <= 0 {
		cfg.Beat = time.Second
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 3 * cfg.Beat
	}
	if cfg.AheadWindow <= 0 {
		cfg.AheadWindow = 100 * time.Millisecond
	}
	if cfg.ReplaceEvery <= 0 {
		cfg.ReplaceEvery = 5 * time.Second
	}
	if cfg.StartWithin <= 0 {
		cfg.StartWithin = 30 * time.Second
	}
	def(&cfg.ReplaceBurst, 3)
	def(&cfg.Outstanding, 4096)
	def(&cfg.MaxAhead, 2048)
	def(&cfg.Pipeline, 2)
	def(&cfg.FrameBudget, 512<<10)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Coordinator is the pure core of the one peer that decides: who runs what, which ends are settled,
// which attempts are given up. It is built from the ledger's state at the start of an epoch and
// lives no longer than that epoch. From then on every entry applied must be fed to it, in order, as
// LedgerApplied; it changes its mind about decisions only by what was applied.
//
// It does no I/O and reads no clock. Whoever drives it calls Step with an event and the time,
// carries out the effects in order, and calls again no later than Wake says. It is not safe for
// concurrent use.
type Core struct {
	cfg   CoreConfig
	epoch taskstate.Epoch
	index uint64 // of the last entry applied
	began uint64 // index at which this generation of the ledger was recovered; 0: it is the first
	clock clock
	now   time.Time

	peers     map[taskstate.PeerID]*peerState
	order     []*peerState                     // by id
	strangers map[taskstate.PeerID]PeerVerdict // what gossip says about who is no member (yet)
	jobs      map[taskstate.JobID]*jobState
	backlog   backlog     // what waits to be placed
	lasting   []*jobState // services and global jobs, by age

	sessions map[ConnID]*workerSession
	touched  []*workerSession // have something to send when the step ends

	outbox outbox   // decided, not proposed
	given  givenUps // attempts whose end may still come

	base        pace            // beat and grace where the ledger does not say otherwise
	settings    ledger.Settings // of the cluster
	settledAt   time.Time       // when peers that have not come back since the election stop being unknown
	amends      time.Time       // when the first of the peers on which too much failed may have it again
	schedules   schedules
	delayed     []*jobState  // whose delay lasts
	wake        time.Time    // see Wake
	settledDone bool         // twice the grace is over and every peer was reviewed
	dirty       bool         // something may be placeable that was not
	freed       bool         // something ended, or a peer came: queues may be uneven
	replacing   bool         // something may have to be given up
	changes     uint64       // counts changes of standings, and of what is known about what peers run
	guard       freeze.Guard // of replacement
	seed        uint64
	effects     []Effect
	scratch     scratch
}

// ConnID names one accepted session stream. The shell counts them; a number is never used twice in
// one epoch.
type ConnID uint64

// Event is what a Coordinator can be told: one of the types below.
type Event interface{ isEvent() }

// Effect is what a Coordinator wants done: one of the types below. Effects are to be carried out in
// order.
type Effect interface{ isEffect() }

// Known is what others hold of a worker's incarnation: the highest batch it signed, and its
// EnvelopeSum if it is at hand.
type Known struct {
	Batch uint64
	Sum   []byte
}

// The events.
type (
	// SessionOpened is a stream whose first frame was Hello.
	SessionOpened struct {
		Conn  ConnID
		Peer  taskstate.PeerID
		Hello session.Hello
		Known Known
	}
	// SessionFrame is a later frame of a stream, other than Hello and Batch.
	SessionFrame struct {
		Conn  ConnID
		Frame session.Up
	}
	// SessionBatch is a Batch frame whose envelope was opened: its signature is the author's.
	SessionBatch struct {
		Conn  ConnID
		Batch taskstate.Batch
	}
	// SessionClosed tells that a stream is gone.
	SessionClosed struct{ Conn ConnID }
	// PeerVerdict is news of gossip about a peer. Since is when the verdict began. Never means that
	// gossip here has not seen the peer alive since this one started: it cannot vanish. Parted
	// means that it said goodbye: it did not vanish either.
	PeerVerdict struct {
		Peer    taskstate.PeerID
		Verdict Verdict
		Since   time.Time
		Never   bool
		Parted  bool
	}
	// Thaw is a person's word that the peers that have vanished are really gone.
	Thaw struct{}
	// Balance is a person's wish to have some of a service's tasks moved; see
	// Coordinator.Rebalance.
	Balance struct {
		Job   taskstate.JobID
		Moves int // at most
	}
	// PeerProbed answers a ProbePeer.
	PeerProbed struct {
		Peer   taskstate.PeerID
		Failed bool
	}
	// LedgerApplied is the next entry of the ledger with its results. Entries the core was built
	// from are skipped.
	LedgerApplied struct {
		Entry   ledger.Entry
		Results []ledger.Result
	}
	// ProposalDone tells that one proposal was decided, and was fed as LedgerApplied or will be.
	ProposalDone struct{}
	// TimePassed is no event but the time.
	TimePassed struct{}
)

func (SessionOpened) isEvent() {}
func (SessionFrame) isEvent()  {}
func (SessionBatch) isEvent()  {}
func (SessionClosed) isEvent() {}
func (PeerVerdict) isEvent()   {}
func (PeerProbed) isEvent()    {}
func (Thaw) isEvent()          {}
func (Balance) isEvent()       {}
func (LedgerApplied) isEvent() {}
func (ProposalDone) isEvent()  {}
func (TimePassed) isEvent()    {}

// The effects.
type (
	// SendDown sends a frame on a stream.
	SendDown struct {
		Conn  ConnID
		Frame session.Down
	}
	// EndSession closes a stream once what was sent on it is out. SessionClosed need not follow.
	EndSession struct {
		Conn ConnID
		Why  string
	}
	// ProposeCommands proposes commands as one entry, to be answered with ProposalDone.
	ProposeCommands struct{ Commands []ledger.Command }
	// ProbePeer dials a peer and answers with PeerProbed.
	ProbePeer struct{ Peer taskstate.PeerID }
	// StartOver asks for a new core, built from the ledger as it is now: this one has lost track.
	StartOver struct{ Why string }
)

func (SendDown) isEffect()        {}
func (EndSession) isEffect()      {}
func (ProposeCommands) isEffect() {}
func (ProbePeer) isEffect()       {}
func (StartOver) isEffect()       {}

// NewCore builds the core for an epoch from everything decided before it. It keeps nothing of st
// but jobs as submitted, which never change.
func NewCore(cfg CoreConfig, epoch taskstate.Epoch, st *ledger.State, now time.Time) *Core {
	c := &Core{
		cfg: cfg.withDefaults(), epoch: epoch, index: st.Index(), clock: clock{started: now}, now: now,
		peers: map[taskstate.PeerID]*peerState{}, jobs: map[taskstate.JobID]*jobState{}, strangers: map[taskstate.PeerID]PeerVerdict{}, sessions: map[ConnID]*workerSession{},
		seed: cfg.Seed,
	}
	c.base = pace{c.cfg.Beat, c.cfg.Grace}
	c.setPace(st.Settings())
	c.derive(st)
	c.wakeAt(c.settledAt)
	return c
}

// Step takes one event and returns what is to be done.
func (c *Core) Step(ev Event, now time.Time) []Effect {
	return c.StepAll([]Event{ev}, now)
}

// StepAll takes events that have gathered. What follows from all of them together leaves in as few
// frames and proposals as possible.
func (c *Core) StepAll(evs []Event, now time.Time) []Effect {
	if now.After(c.now) {
		c.now = now
	}
	for _, ev := range evs {
		c.handle(ev)
	}
	c.reviewFreeze()
	c.due()
	c.reviewFreeze() // sessions may have ended just now
	c.steps()
	c.propose()
	c.lookForRecalls()
	c.flush()
	out := c.effects
	c.effects = nil
	return out
}

func (c *Core) handle(ev Event) {
	switch ev := ev.(type) {
	case SessionOpened:
		c.onHello(ev)
	case SessionFrame:
		c.onFrame(ev)
	case SessionBatch:
		c.onBatch(ev)
	case SessionClosed:
		c.onClosed(ev.Conn)
	case PeerVerdict:
		c.onVerdict(ev)
	case PeerProbed:
		c.onProbed(ev)
	case Thaw:
		c.thaw()
	case Balance:
		c.onBalance(ev)
	case LedgerApplied:
		c.onApplied(ev)
	case ProposalDone:
		c.outbox.answered()
	case TimePassed:
	}
}

// Wake is when Step must be called at the latest, with TimePassed if nothing else happened; zero if
// time alone changes nothing.
func (c *Core) Wake() time.Time { return c.wake }

func (c *Core) wakeAt(t time.Time) {
	if c.wake.IsZero() || t.Before(c.wake) {
		c.wake = t
	}
}

// due does what time alone brings about. It looks at peers, never at tasks, and only when the
// moment has come that somebody asked for.
func (c *Core) due() {
	if c.wake.IsZero() || c.now.Before(c.wake) {
		return
	}
	c.wake = time.Time{}
	if c.now.Before(c.settledAt) {
		c.wakeAt(c.settledAt)
	} else if !c.settledDone {
		c.settledDone = true
		for _, p := range c.order {
			c.review(p)
		}
	}
	c.dueSessions()
	c.dueProbes()
	c.dueReplacements()
	c.dueRecalls()
	c.dueLater()
	c.dueAmends()
}

// startOver gives up on this core: something was applied that it cannot place.
func (c *Core) startOver(why string) {
	c.effects = append(c.effects, StartOver{Why: why})
}

func (c *Core) log(msg string, args ...any) { c.cfg.Log.Debug(msg, args...) }

// clock tells times as the ledger does, for a core that began at a moment of this machine's clock.
type clock struct {
	started time.Time
	skew    int64 // the ledger's stamp, in milliseconds, when the core began: for all it knows so far
}

// stamp is a moment as the ledger tells it, in milliseconds: it never goes back, whatever the clock
// of a new coordinator says, and goes on as time passes.
func (k *clock) stamp(now time.Time) int64 { return k.skew + k.elapsed(now) }

// when is a ledger stamp by this clock, to the millisecond after it.
func (k *clock) when(stamp int64) time.Time { return k.after(stamp - k.skew) }

// heard learns how far the ledger's clock is. It rounds so that nothing comes a millisecond early.
func (k *clock) heard(stamp int64, now time.Time) {
	passed := (now.Sub(k.started) + time.Millisecond - 1).Milliseconds()
	k.skew = max(k.skew, stamp-passed)
}

// elapsed is a moment as a rollout is told it: milliseconds of the core's life, which no correction
// of a clock changes.
func (k *clock) elapsed(t time.Time) int64 { return t.Sub(k.started).Milliseconds() }

// after is the moment that elapsed tells as ms.
func (k *clock) after(ms int64) time.Time { return k.started.Add(time.Duration(ms) * time.Millisecond) }
