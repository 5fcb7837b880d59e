package session

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

// Protocol is the stream protocol of a session.
const Protocol = "/covey/session/1"

// Up is a frame from worker to coordinator: exactly one field is set.
type Up struct {
	Hello   *Hello   `cbor:"1,keyasint,omitempty"`
	Beat    *Beat    `cbor:"2,keyasint,omitempty"`
	Batch   []byte   `cbor:"3,keyasint,omitempty"` // a signed envelope, the same bytes that are gossiped
	Resync  *Resync  `cbor:"4,keyasint,omitempty"`
	Offer   *Offer   `cbor:"5,keyasint,omitempty"`
	Dropped *Dropped `cbor:"6,keyasint,omitempty"`
	Report  *Report  `cbor:"7,keyasint,omitempty"`
	Goodbye *Goodbye `cbor:"8,keyasint,omitempty"`
}

// Down is a frame from coordinator to worker: exactly one field is set.
type Down struct {
	Welcome     *Welcome     `cbor:"1,keyasint,omitempty"`
	Refuse      *Refuse      `cbor:"2,keyasint,omitempty"`
	Beat        *BeatAnswer  `cbor:"3,keyasint,omitempty"`
	Assignments *Assignments `cbor:"4,keyasint,omitempty"`
	Ack         *Ack         `cbor:"5,keyasint,omitempty"`
	Released    *Released    `cbor:"6,keyasint,omitempty"`
	NextDown
}

// Speak has a frame say all it can in a dialect.
func (d *Down) Speak(dialect int) {
	d.say()
	wire.Clip(d, dialect)
}

// Hello opens a session. Session is the id of the session before it, if any. Reports follow, the
// last one marked.
type Hello struct {
	Incarnation taskstate.Incarnation `cbor:"1,keyasint"`
	Session     string                `cbor:"2,keyasint,omitempty"`
	Fence       taskstate.Epoch       `cbor:"3,keyasint"` // the highest epoch this worker has obeyed
	Offer       Offer                 `cbor:"4,keyasint"`
	Acked       uint64                `cbor:"5,keyasint"` // batches up to here were acknowledged
	Last        uint64                `cbor:"6,keyasint"` // number of the newest batch signed
	Start       starts.Start          `cbor:"7,keyasint,omitzero"`
	// Replaces is the incarnation that this start of the peer began with, if it had to begin
	// another: a stream it opened for that one may arrive after this one.
	Replaces taskstate.Incarnation `cbor:"8,keyasint,omitempty"`
	Dialect  int                   `cbor:"9,keyasint,omitempty"` // the newest it reads; 0 is 1
}

// Report lists tasks a worker holds, each with its newest status: sent after Hello in as many
// frames as it takes.
type Report struct {
	Tasks []taskstate.Status `cbor:"1,keyasint"`
	Done  bool               `cbor:"2,keyasint,omitempty"`
}

// Offer is what a peer has to give to tasks.
type Offer struct {
	Resources taskstate.Resources `cbor:"1,keyasint"`
	Name      string              `cbor:"2,keyasint,omitempty"`
	Labels    map[string]string   `cbor:"3,keyasint,omitempty"`
	OS        string              `cbor:"4,keyasint,omitempty"`
	Arch      string              `cbor:"5,keyasint,omitempty"`
	Addrs     []string            `cbor:"6,keyasint,omitempty"` // IP addresses under which it can be reached
	Trouble   string              `cbor:"7,keyasint,omitempty"` // why this peer takes no tasks now, for people; "" if it does

	// Policy is what others may know of what this peer's owner lets run; nil: nothing is known.
	Policy *policy.Policy `cbor:"10,keyasint,omitempty"`

	// NoFiles is why it takes no tasks that leave files, for people; "" if it does.
	NoFiles string `cbor:"11,keyasint,omitempty" dialect:"2"`

	TroubleCode string `cbor:"9,keyasint,omitempty"` // the same for programs, see api.Trouble; "" if there is no code for it
}

// NoFilesDialect is the dialect from which on coordinators know Offer.NoFiles.
const NoFilesDialect = 2

// Beat keeps a session alive and measures it.
type Beat struct {
	N uint64 `cbor:"1,keyasint"`
	// Load of the worker's machine, where it is another than in the beat before.
	Load *Load `cbor:"2,keyasint,omitempty"`
}

// BeatAnswer says whether the coordinator still holds the session: a half-open link heals within
// one beat. Beat and Grace, milliseconds, take the place of the Welcome's; with them it also comes
// unasked (N is 0), when they have changed.
type BeatAnswer struct {
	N     uint64 `cbor:"1,keyasint"`
	Held  bool   `cbor:"2,keyasint,omitempty"`
	Beat  int64  `cbor:"3,keyasint,omitempty"`
	Grace int64  `cbor:"4,keyasint,omitempty"`
}

// Welcome accepts a session. Durations are milliseconds.
type Welcome struct {
	Session string          `cbor:"1,keyasint"`
	Epoch   taskstate.Epoch `cbor:"2,keyasint"`
	Beat    int64           `cbor:"3,keyasint"` // send a beat this often, ± 10 %
	Grace   int64           `cbor:"4,keyasint"` // the session is over after so long without a beat

	// What is known of the worker's incarnation: the highest batch it signed, that batch's
	// EnvelopeSum if it is at hand, and open attempts it has spoken of. A worker that knows less
	// has lost its journal.
	Highest uint64  `cbor:"5,keyasint,omitempty"`
	Sum     []byte  `cbor:"6,keyasint,omitempty"`
	Heard   []Grant `cbor:"7,keyasint,omitempty"`
}

// Refuse declines a session and says why, whom to ask instead (a hint) and when to try again
// (milliseconds).
type Refuse struct {
	Code        string           `cbor:"1,keyasint"`
	Message     string           `cbor:"2,keyasint"`
	Coordinator taskstate.PeerID `cbor:"3,keyasint,omitempty"`
	RetryAfter  int64            `cbor:"4,keyasint,omitempty"`
}

// Codes of Refuse.
const (
	RefuseNotCoordinator = "not-coordinator"
	RefuseNotAdmitted    = "not-admitted"
	RefuseTooMany        = "too-many-registrations"
	RefuseFenced         = "fenced"    // this incarnation was replaced by another
	RefuseCopied         = "copied"    // another process goes by its identity
	RefuseUnheard        = "unheard"   // too few say what they remember of it
	RefuseDialect        = "dialect"   // it reads less than the cluster speaks
	RefuseMalformed      = "malformed" // a Hello that is too large or makes no sense
)

// Assignments changes what a worker should have. A Complete set lists everything: what it does not
// list is stopped. An incremental one applies to the set with number AppliesTo and results in
// ResultsIn; on a gap the worker asks for one Complete set, once (Resync). A set too large for a
// frame is split: all but the last part have More set, and only the last counts.
type Assignments struct {
	Complete  bool               `cbor:"1,keyasint,omitempty"`
	More      bool               `cbor:"2,keyasint,omitempty"`
	AppliesTo uint64             `cbor:"3,keyasint,omitempty"`
	ResultsIn uint64             `cbor:"4,keyasint"`
	Epoch     taskstate.Epoch    `cbor:"5,keyasint"`
	Jobs      []taskstate.Job    `cbor:"6,keyasint,omitempty"` // every job of Grants this session has not been sent yet, without Each
	Grants    []Grant            `cbor:"7,keyasint,omitempty"`
	Stop      []Stop             `cbor:"8,keyasint,omitempty"`
	Recall    []taskstate.TaskID `cbor:"9,keyasint,omitempty"` // give back if not started
}

// Grant gives slots of one job, decided at ledger index Index. Items has one element per slot, in
// order, if the job has Each.
type Grant struct {
	Job   taskstate.JobID `cbor:"1,keyasint"`
	Index uint64          `cbor:"2,keyasint"`
	Slots []ledger.Slots  `cbor:"3,keyasint"`
	Items []string        `cbor:"4,keyasint,omitempty"`
	// Version of the job these slots run: updates of services and global jobs have raised it. 0 for
	// batch jobs.
	Version int `cbor:"5,keyasint,omitempty"`
	// Proof shows that Items are those the job's order was signed for: see taskstate.CheckItems.
	Proof [][]byte `cbor:"6,keyasint,omitempty"`
	// Forged is the worker's own, in its journal: Items were not.
	Forged bool `cbor:"7,keyasint,omitempty"`
}

// BodyID names a job's body: a job that is updated has several, each of which never changes.
type BodyID struct {
	job     taskstate.JobID
	version int
}

func BodyOf(j *taskstate.Job) BodyID { return BodyID{j.ID, j.Version} }

func (g *Grant) Body() BodyID { return BodyID{g.Job, g.Version} }

// key is what a body is kept under in a journal.
func (b BodyID) Key() []byte {
	if b.version == 0 {
		return []byte(b.job)
	}
	return fmt.Appendf(nil, "%s@%d", b.job, b.version)
}

// tasks unfolds a grant.
func (g Grant) Tasks() func(yield func(taskstate.TaskID) bool) {
	return func(yield func(taskstate.TaskID) bool) {
		for _, s := range g.Slots {
			for i := range s.N {
				if !yield(taskstate.Task(g.Job, s.First+i, s.Attempt)) {
					return
				}
			}
		}
	}
}

// add appends a task to a grant, longer runs first.
func (g *Grant) Add(id taskstate.TaskID, item string, items bool) {
	if items {
		g.Items = append(g.Items, item)
	}
	g.Slots = ledger.AppendSlots(g.Slots, ledger.Slots{First: id.Slot, N: 1, Attempt: id.Attempt})
}

// Stop ends a task the worker has, or forbids it one it may still be sent (a tombstone).
type Stop struct {
	Task   taskstate.TaskID `cbor:"1,keyasint"`
	Reason taskstate.Reason `cbor:"2,keyasint"`
}

// Ack acknowledges: every final status in batches up to and including Batch is settled, superseded
// or retired. The worker forgets those tasks and batches.
type Ack struct {
	Batch uint64 `cbor:"1,keyasint"`
}

// Resync asks for one Complete set.
type Resync struct {
	Have uint64 `cbor:"1,keyasint"`
}

// Dropped answers for tasks the coordinator believes here and the worker does not have: they were
// tombstoned first. A worker whose disk takes nothing also gives back at its word what it was asked
// for and has not begun.
type Dropped struct {
	Tasks []taskstate.TaskID `cbor:"1,keyasint"`
}

// Goodbye says that this worker stops: it is to be given nothing more. Answered by Released.
type Goodbye struct{}

// Released answers Goodbye: every assignment to this worker that was decided, or may have been, was
// sent before. What it has given back, and of what it has heard the acknowledgement, will not be
// waited for.
type Released struct{}

// TooOld says why a worker that reads a dialect gets no session in a cluster that speaks another.
func TooOld(reads, speaks int) string {
	return fmt.Sprintf("the cluster speaks dialect %d, and this version of peer reads %d: install the newer version here and restart the peer", speaks, reads)
}

// EnvelopeSum is what two holders of a sealed batch compare.
func EnvelopeSum(envelope []byte) []byte {
	s := sha256.Sum256(envelope)
	return s[:16]
}

// Millis is a duration as frames carry it.
func Millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
