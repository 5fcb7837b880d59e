package worker

import (
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// Bounds of the worker's core. None is reached while a coordinator keeps to its own limits.
const (
	maxTombstones  = 8192                           // oldest first out
	maxEarly       = 256                            // frames that wait for the fence to be on disk
	maxStatuses    = taskstate.MaxBatchStatuses     // statuses in one batch
	maxBatchBytes  = taskstate.MaxBatchBytes - 1024 // estimated, from above
	maxBatches     = 8                              // batches in one journal transaction
	maxReportBytes = 400_000                        // estimated, of one Report frame
	maxIdleJobs    = 1024                           // job bodies kept for a session without a task of theirs
	maxIdleBytes   = 16 << 20
	lazyTidy       = 256 // what was acknowledged is removed with the next transaction, at the latest when so much has gathered
	minBegunAhead  = 64  // queued tasks marked as begun ahead of their turn
	statusOverhead = 112 // bytes of an encoded status besides its texts
)

// Event is an input of the worker's core.
type Event interface{ isEvent() }

// Effect is what the core wants done. Effects of one step are carried out in order.
type Effect interface{ isEffect() }

type (
	// Opened: a stream to a coordinator is up; Stream numbers it, ascending.
	Opened struct{ Stream uint64 }
	// Closed: that stream is gone.
	Closed struct{ Stream uint64 }
	// Frame: a frame came down that stream. Refuse and Beat stay with the session client.
	Frame struct {
		Stream uint64
		Down   *session.Down
	}
	// Ran: the runner reported.
	Ran struct{ Reports []taskstate.RunReport }
	// Saved: the transaction of Save is on disk.
	Saved struct{}
	// Sick: the journal cannot be written (it is tried again); nil: it can, again.
	Sick struct{ Err error }
	// Published: the batches of Publish were handed to the topic, or were refused by it.
	Published struct{}
	// OfferChanged: what this peer has to give changed.
	OfferChanged struct{ Offer session.Offer }
	// Stop: the peer leaves; everything it runs is stopped.
	Stop struct{}
	// Detach: the peer ends and comes back: nothing is taken on or started any more, what runs goes
	// on without it.
	Detach struct{}
	// Seen: others hold a batch of this number of an incarnation of this peer.
	Seen struct {
		Incarnation taskstate.Incarnation
		Number      uint64
	}
	// Mute: nothing is to be signed, or it is again.
	Mute struct{ On bool }
	// Staged: whoever brings the inputs of jobs here says how far they are.
	Staged struct{ Reports []StageReport }
	// Restored: the journal has been read. Comes once, to a core that began without; answered by
	// Adopt.
	Restored struct{ Image *journal.Image }
	// Adopted: the runner has taken up what was begun before a restart, except these. Comes once,
	// before anything but streams and their frames.
	Adopted struct{ Lost []taskstate.Loss }
)

func (Opened) isEvent()       {}
func (Closed) isEvent()       {}
func (Frame) isEvent()        {}
func (Ran) isEvent()          {}
func (Saved) isEvent()        {}
func (Sick) isEvent()         {}
func (Published) isEvent()    {}
func (OfferChanged) isEvent() {}

// Refrain: this worker is to take nothing on, for a reason that is not its journal's (nil: it may
// again).
type Refrain struct{ Err error }

func (Refrain) isEvent()  {}
func (Stop) isEvent()     {}
func (Detach) isEvent()   {}
func (Seen) isEvent()     {}
func (Mute) isEvent()     {}
func (Staged) isEvent()   {}
func (Restored) isEvent() {}
func (Adopted) isEvent()  {}

type (
	// Send puts a frame on the open stream.
	Send struct{ Frame session.Up }
	// End ends the open stream; again says that a new one may be tried without delay.
	End struct {
		Why   string
		Again bool
	}
	// Save asks for one journal transaction; answered by Saved. There is never more than one under
	// way.
	Save struct{ Txn *journal.Txn }
	// Publish hands sealed batches to the topic; answered by Published. There is never more than
	// one under way.
	Publish struct{ Envelopes [][]byte }
	// Start starts a task.
	Start struct{ Launch taskstate.Launch }
	// Halt stops a started task.
	Halt struct{ Stop session.Stop }
	// Kept: the ends of these processes are in the journal.
	Kept struct{ Tasks []taskstate.TaskID }
	// Stage has the inputs of a job brought here; answered by Staged.
	Stage struct{ Job *taskstate.Job }
	// Exhaustion says that refusals of the machine limit what this worker takes; nil: no longer.
	Exhaustion struct{ Err error }
	// Adopt has the runner look for what may have been started before; answered by Adopted.
	Adopt struct{ Begun []taskstate.Launch }
)

func (Send) isEffect()    {}
func (End) isEffect()     {}
func (Save) isEffect()    {}
func (Publish) isEffect() {}
func (Start) isEffect()   {}
func (Halt) isEffect()    {}
func (Kept) isEffect()    {}
func (Stage) isEffect()   {}
func (Adopt) isEffect()   {}

func (Exhaustion) isEffect() {}
