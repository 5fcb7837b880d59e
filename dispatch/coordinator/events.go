package coordinator

import (
	"log/slog"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/taskstate"
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
	// StartWithin is how long a worker may have room for a task, by its own reports, and not start
	// it. 0: 30 s.
	StartWithin time.Duration
	Pipeline    int // proposals under way at once: 2
	FrameBudget int // bytes a frame may be estimated at: 512 KiB
	// Read shows the ledger as it is now, which may be later than what the core has heard: for
	// where the inputs of a job are, from which no more follows than which of equal peers comes
	// first. Loop sets it. nil: nobody knows.
	Read func(func(*ledger.State))
	// Heard is the newest status that this peer has of a task whose end is not decided, whichever
	// way it came; the task's worker signed it. It is asked of tasks that are about to be given up.
	// nil: nothing is heard but in sessions.
	Heard func(taskstate.TaskID) (taskstate.Status, bool)
	// Clocks is what most voters' clocks show, in milliseconds since 1970. nil: not known, and
	// schedules go by the ledger's time alone.
	Clocks func() int64
	Log    *slog.Logger // nil: silent
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
	if cfg.StartWithin <= 0 {
		cfg.StartWithin = 30 * time.Second
	}
	def(&cfg.Outstanding, 4096)
	def(&cfg.MaxAhead, 2048)
	def(&cfg.Pipeline, 2)
	def(&cfg.FrameBudget, 512<<10)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
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
		Away  time.Duration // the round trip to it, 0 if it was not measured
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
		Verdict verdict.Verdict
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

// Standing is how the coordinator sees a peer. It is derived, never stored: from the ledger (left),
// the session and the verdict of gossip.
type Standing string

// The standings. Only a ready peer gets new tasks; only an unreachable one loses those it has.
const (
	Ready       Standing = "ready"       // alive, session up
	Suspect     Standing = "suspect"     // gossip doubts it
	Detached    Standing = "detached"    // alive by gossip, no session
	Unreachable Standing = "unreachable" // dead by gossip and no session
	Left        Standing = "left"        // said goodbye; a decision, in the ledger
	Unknown     Standing = "unknown"     // after an election, until it is back or really gone
)

// Facts are what a standing is derived from.
type Facts struct {
	Left       bool
	Session    bool            // a session is up
	Newer      bool            // that session began, or was last heard, after the verdict
	Back       bool            // it had a session in this epoch
	Verdict    verdict.Verdict // of this coordinator's own view
	Unanswered bool            // the coordinator's own dial failed, and no sign of life came since
	Settled    bool            // twice the grace has passed since the epoch began
}

// StandingOf derives a peer's standing.
func StandingOf(f Facts) Standing {
	doubted := f.Verdict == verdict.Suspect || f.Verdict == verdict.Dead
	gone := f.Verdict == verdict.Dead && f.Unanswered
	switch {
	case f.Left:
		return Left
	case f.Session && doubted && !f.Newer:
		return Suspect
	case f.Session:
		return Ready
	case !f.Back && !f.Settled && !gone:
		return Unknown
	case f.Verdict == verdict.Dead:
		return Unreachable
	case f.Verdict == verdict.None && f.Settled && f.Unanswered:
		return Unreachable // gossip never heard of it since this peer started, and neither does it answer
	case f.Verdict == verdict.Suspect:
		return Suspect
	}
	return Detached
}
