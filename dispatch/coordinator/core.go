package coordinator

import (
	"iter"
	"log/slog"
	"time"

	"covey/dispatch/coordinator/clock"
	"covey/dispatch/coordinator/freeze"
	"covey/dispatch/ledger"
	"covey/dispatch/session"
	"covey/taskstate"
)

// CoreConfig sets a Core up. Zero fields take the defaults named.
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

// Core is the pure core of the one peer that decides: who runs what, which ends are settled, which
// attempts are given up. It is built from the ledger's state at the start of an epoch and lives no
// longer than that epoch. From then on every entry applied must be fed to it, in order, as
// LedgerApplied; it changes its mind about decisions only by what was applied.
//
// It does no I/O and reads no clock. Whoever drives it calls Step with an event and the time,
// carries out the effects in order, and calls again no later than Wake says. It is not safe for
// concurrent use.
//
// It has no state of its own: each part owns its own, and knows only those above it here.
type Core struct {
	cfg   *CoreConfig
	epoch taskstate.Epoch

	clock    *clock.Clock
	agenda   *agenda
	outbox   *outbox
	peers    *peers
	jobs     *jobs
	sessions *sessions
	tasks    *tasks
	placer   *placer
	replacer *replacer
	recaller *recaller
	upkeep   *upkeep
	explain  *explainer
}

// ConnID names one accepted session stream. The shell counts them; a number is never used twice in
// one epoch.
type ConnID uint64

// Event is what a Core can be told: one of the types below.
type Event interface{ isEvent() }

// Effect is what a Core wants done: one of the types below. Effects are to be carried out in
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
	// Core.Rebalance.
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
	cfg = cfg.withDefaults()
	k, a, o := clock.New(now, st.Stamp(), st.Index()), &agenda{}, &outbox{}
	ps := &peers{cfg: &cfg, clock: k, agenda: a, all: map[taskstate.PeerID]*peerState{}, strangers: map[taskstate.PeerID]PeerVerdict{}}
	js := &jobs{clock: k, agenda: a, outbox: o, peers: ps, all: map[taskstate.JobID]*jobState{}}
	ss := &sessions{cfg: &cfg, epoch: epoch, clock: k, agenda: a, peers: ps, open: map[ConnID]*workerSession{}, base: pace{cfg.Beat, cfg.Grace}}
	ts := &tasks{clock: k, agenda: a, outbox: o, peers: ps, jobs: js, sessions: ss, began: st.Began()}
	pl := &placer{cfg: &cfg, clock: k, agenda: a, peers: ps, jobs: js, seed: cfg.Seed}
	c := &Core{
		cfg: &cfg, epoch: epoch, clock: k, agenda: a, outbox: o, peers: ps, jobs: js, sessions: ss, tasks: ts, placer: pl,
		replacer: &replacer{cfg: &cfg, clock: k, agenda: a, peers: ps, sessions: ss, tasks: ts},
		recaller: &recaller{cfg: &cfg, clock: k, agenda: a, peers: ps, jobs: js, sessions: ss},
		upkeep:   &upkeep{born: st.Index(), clock: k, agenda: a, outbox: o, peers: ps, jobs: js, sessions: ss, placer: pl},
	}
	c.explain = &explainer{clock: k, peers: ps, jobs: js, placer: pl, replacer: c.replacer}
	ss.setPace(st.Settings())
	c.derive(st)
	k.WakeAt(ps.settledAt)
	return c
}

// Step takes one event and returns what is to be done.
func (c *Core) Step(ev Event, now time.Time) []Effect {
	return c.StepAll([]Event{ev}, now)
}

// StepAll takes events that have gathered. What follows from all of them together leaves in as few
// frames and proposals as possible.
func (c *Core) StepAll(evs []Event, now time.Time) []Effect {
	c.clock.Advance(now)
	for _, ev := range evs {
		c.handle(ev)
	}
	c.peers.reviewFreeze()
	c.due()
	c.peers.reviewFreeze() // sessions may have ended just now
	c.upkeep.step()
	c.sessions.stepDrains()
	c.jobs.stepSchedules()
	c.jobs.stepDelayed()
	c.propose()
	c.recaller.lookForRecalls()
	c.sessions.flush()
	return c.agenda.done()
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
		c.sessions.onClosed(ev.Conn)
	case PeerVerdict:
		c.peers.onVerdict(ev)
	case PeerProbed:
		c.peers.onProbed(ev)
	case Thaw:
		c.peers.thaw()
	case Balance:
		c.upkeep.onBalance(ev)
	case LedgerApplied:
		c.onApplied(ev)
	case ProposalDone:
		c.outbox.answered()
	case TimePassed:
	}
}

// Wake is when Step must be called at the latest, with TimePassed if nothing else happened; zero if
// time alone changes nothing.
func (c *Core) Wake() time.Time { return c.clock.Wake() }

// Peers lists the members, by id.
func (c *Core) Peers() []PeerLoad { return c.peers.loads() }

// Standings yields every member's standing, by id.
func (c *Core) Standings() iter.Seq2[taskstate.PeerID, Standing] { return c.peers.standings }

// Frozen tells whether and why nothing is replaced.
func (c *Core) Frozen() freeze.State { return c.peers.frozen() }

// Waiting tells a person why a job has slots that nobody runs; "" if it has none, or is over.
func (c *Core) Waiting(id taskstate.JobID) string { return c.explain.waiting(id) }

// Whys says of every job that waits for something why, as Waiting does of one.
func (c *Core) Whys() map[taskstate.JobID]string { return c.explain.whys() }

// Waited lists the newest times in which a job's slots waited because nobody could take them, as
// far as this coordinator saw them and until the job is over.
func (c *Core) Waited(id taskstate.JobID) []Spell { return c.explain.waited(id) }

// Preview tells where the tasks of a job would go now. If there is a job with its id, it is taken
// for an update of that. Nothing is changed; a moment later the answer may be another.
func (c *Core) Preview(job *taskstate.Job) Preview { return c.placer.preview(job) }

// Rebalance tells which tasks of a service to move so that its peers differ by one task at most, by
// slot. Nothing is changed. While tasks are on their way – busy – there is nothing to say yet.
func (c *Core) Rebalance(id taskstate.JobID) (moves []Move, busy bool) { return c.upkeep.rebalance(id) }

// due does what time alone brings about. It looks at peers, never at tasks, and only when the
// moment has come that somebody asked for.
func (c *Core) due() {
	if !c.clock.Due() {
		return
	}
	c.peers.dueSettled()
	c.sessions.dueSessions()
	c.peers.dueProbes()
	c.replacer.dueReplacements()
	c.recaller.dueRecalls()
	c.jobs.dueLater()
	c.jobs.lookAgainIfDue()
}

// agenda is what a step is to bring about: effects, and what is still to be looked at before it
// ends. All parts add to it.
type agenda struct {
	effects   []Effect
	dirty     bool   // something may be placeable that was not
	freed     bool   // something ended, or a peer came: queues may be uneven
	replacing bool   // something may have to be given up
	changes   uint64 // counts changes of standings, and of what is known about what peers run
}

func (a *agenda) do(e Effect) { a.effects = append(a.effects, e) }

// place has the step look whether what waits can be placed.
func (a *agenda) place() { a.dirty = true }

// room says that there is room where there was none, or other room than before.
func (a *agenda) room() { a.dirty, a.freed = true, true }

func (a *agenda) changed() { a.changes++ }

// done takes out the effects of the step.
func (a *agenda) done() []Effect {
	out := a.effects
	a.effects = nil
	return out
}
