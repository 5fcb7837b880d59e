package ledger

import (
	"iter"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Entry is one element of the log: commands that were decided together. Index is the raft index,
// filled in when it is applied.
type Entry struct {
	Index    uint64           `cbor:"1,keyasint,omitempty"`
	Epoch    taskstate.Epoch  `cbor:"2,keyasint"`
	Stamp    int64            `cbor:"3,keyasint"` // milliseconds since 1970 by the coordinator's clock; Apply makes it monotone
	By       taskstate.PeerID `cbor:"4,keyasint"` // the coordinator that proposed it
	Commands []Command        `cbor:"5,keyasint"`

	raw []byte // as it is in the log; nil where there is none
}

// EncodedEntry encodes like an Entry without an Index, from commands that are encoded already.
type EncodedEntry struct {
	Epoch    taskstate.Epoch   `cbor:"2,keyasint"`
	Stamp    int64             `cbor:"3,keyasint"`
	By       taskstate.PeerID  `cbor:"4,keyasint"`
	Commands []cbor.RawMessage `cbor:"5,keyasint"`
}

// ReadEntry reads what the log has at an index. The Entry keeps data, which must not change any
// more. In the log every job is whole: one that says that something of it is withheld is none that
// somebody signed, and comes without that. Everybody sees then that it is not what was signed, and
// no voter waits for a body that nobody has.
func ReadEntry(index uint64, data []byte) (Entry, error) {
	e, err := ReadShown(index, data)
	if err != nil || !e.Withholds() {
		return e, err
	}
	for i := range e.Commands {
		if job := e.Commands[i].job(); job != nil {
			job.Withheld = nil
		}
	}
	plain := e
	plain.Index = 0
	e.raw, err = wire.Marshal(plain)
	return e, err
}

// ReadShown reads an entry as a voter sent it, to one that may not know what all jobs run.
func ReadShown(index uint64, data []byte) (Entry, error) {
	var e Entry
	if err := wire.Unmarshal(data, &e); err != nil {
		return Entry{}, err
	}
	e.Index, e.raw = index, data
	return e, nil
}

// Withholds tells whether what one of its jobs runs is not in it.
func (e *Entry) Withholds() bool {
	return slices.ContainsFunc(e.Commands, func(c Command) bool {
		job := c.job()
		return job != nil && job.Withheld != nil
	})
}

// Encoded is the entry as it was read, without its index.
func (e *Entry) Encoded() []byte { return e.raw }

// Command is one decision: exactly one field is set, besides Act.
type Command struct {
	Found     *Found           `cbor:"1,keyasint,omitempty"`
	Lead      *Lead            `cbor:"2,keyasint,omitempty"`
	Admit     *Admit           `cbor:"3,keyasint,omitempty"`
	Remove    *Remove          `cbor:"4,keyasint,omitempty"`
	Invite    *Invite          `cbor:"5,keyasint,omitempty"`
	Revoke    *Revoke          `cbor:"6,keyasint,omitempty"`
	Submit    *Submit          `cbor:"7,keyasint,omitempty"`
	Cancel    *Cancel          `cbor:"8,keyasint,omitempty"`
	Assign    *Assign          `cbor:"9,keyasint,omitempty"`
	Settle    *Settle          `cbor:"10,keyasint,omitempty"`
	Supersede *Supersede       `cbor:"11,keyasint,omitempty"`
	Depart    *Depart          `cbor:"12,keyasint,omitempty"`
	Register  *Register        `cbor:"13,keyasint,omitempty"`
	Set       *Set             `cbor:"14,keyasint,omitempty"`
	Update    *Update          `cbor:"15,keyasint,omitempty"`
	Renew     *Renew           `cbor:"16,keyasint,omitempty"`
	Retire    *Retire          `cbor:"17,keyasint,omitempty"`
	Grow      *Grow            `cbor:"18,keyasint,omitempty"`
	Rollout   *Rollout         `cbor:"19,keyasint,omitempty"`
	Avail     *SetAvailability `cbor:"20,keyasint,omitempty"`
	Label     *Label           `cbor:"21,keyasint,omitempty"`
	Skip      *Skip            `cbor:"22,keyasint,omitempty"`
	Pin       *Pin             `cbor:"23,keyasint,omitempty"`
	Reads     *ReadsDialect    `cbor:"24,keyasint,omitempty"`
	Kept      *Kept            `cbor:"25,keyasint,omitempty"`
	SetTime   *SetTime         `cbor:"29,keyasint,omitempty" dialect:"2"`
	NextCommand

	// Act is the word of whoever asked for it (see State.Apply).
	Act *act.Act `cbor:"26,keyasint,omitempty"`
}

// Found begins a ledger: the first command ever, by the founder.
type Found struct {
	Cluster    string          `cbor:"1,keyasint"`           // cluster id, 16 base32 characters
	Generation uint64          `cbor:"2,keyasint"`           // 1, raised by recover
	Open       bool            `cbor:"3,keyasint,omitempty"` // anybody who dials may join
	Founder    admission.Entry `cbor:"4,keyasint"`
	// RequireOrders has nothing be done that nobody signed, see Settings. Ledgers of before are
	// without.
	RequireOrders bool `cbor:"5,keyasint,omitempty"`
}

// Lead is the first command of every term: from here on Entry.By coordinates in Entry.Epoch. With
// Chain, which version 0.1 does not say, the checksum over what is applied begins here if it has
// not begun (see chain).
type Lead struct {
	Whole bool `cbor:"1,keyasint,omitempty"` // in logs from before 0.2: a checksum over whole entries, which nobody keeps any more
	Chain bool `cbor:"2,keyasint,omitempty"`
}

// Admit lets a peer in, or changes its entry. Ticket is the id of the invite it used ("" by hand):
// its uses count up, and an invite that is expired, revoked or used up refuses the command.
type Admit struct {
	Entry  admission.Entry `cbor:"1,keyasint"`
	Ticket string          `cbor:"2,keyasint,omitempty"`
	// Dialect is what it reads; 0 where only the entry of a member changes.
	Dialect int `cbor:"3,keyasint,omitempty"`
	// Proof is that the peer holds the ticket's secret (admission.Prove): then it gets the ticket's
	// roles, and no others.
	Proof []byte `cbor:"4,keyasint,omitempty"`
}

// Remove ends a peer's membership for good: it is cut off at once, its open tasks are superseded in
// the same step. Entry is its tombstone for the roster, signed by the coordinator so that others
// can verify it; without one the roster's entry is marked removed and carries no signature.
type Remove struct {
	Peer   taskstate.PeerID `cbor:"1,keyasint"`
	Reason string           `cbor:"2,keyasint,omitempty"`
	Entry  *admission.Entry `cbor:"3,keyasint,omitempty"`
	// Revoke makes the peer's key void from here on: in the same step the jobs that it ordered are
	// cancelled and its tickets revoked, its word for others' roles does not count any more, and
	// nothing that it ordered begins again. It may come after the removal, and is never taken back.
	Revoke bool `cbor:"4,keyasint,omitempty"`
}

// Invite creates a ticket. Secret is the public key of its secret (admission.TicketKey), never the
// secret itself. Expires is in
// milliseconds since 1970.
type Invite struct {
	ID      string           `cbor:"1,keyasint"`
	Secret  []byte           `cbor:"2,keyasint"`
	Roles   []admission.Role `cbor:"3,keyasint"`
	Expires int64            `cbor:"4,keyasint"`
	Uses    int              `cbor:"5,keyasint"`           // 0 = no limit
	By      taskstate.PeerID `cbor:"6,keyasint,omitempty"` // who made it; "" in tickets of version 0.1
	// Lasts is how long whoever asked for it wants it to admit, milliseconds: then Expires follows
	// from it, by the ledger's stamps.
	Lasts int64 `cbor:"7,keyasint,omitempty"`
}

// Revoke ends an invite.
type Revoke struct {
	ID string `cbor:"1,keyasint"`
}

// Submit accepts a job, create-if-absent by id: a repetition answers the same and changes nothing.
// It is refused with CodeConflict and Result.Job if another lasting or scheduled job of that name
// goes on, and with CodeUnknown and Result.Missing if a job of After is not known, or the one of
// Origin. A run of a schedule that allows none beside another is not accepted while one goes on: it
// is recorded as skipped (Result.Skipped). A job whose predecessor ended without success is
// accepted and cancelled (Result.Cut). Again says that it was asked for before, with an answer that
// never came: in a recovered ledger the decision may be among the lost. First is above the numbers
// of all attempts that its slots had in decisions that were set aside, 0 if there were none; more
// than maxFirst is refused.
type Submit struct {
	Job   taskstate.Job `cbor:"1,keyasint"`
	Again bool          `cbor:"2,keyasint,omitempty"`
	First int           `cbor:"3,keyasint,omitempty" dialect:"2"`
}

// Cancel stops a job: slots that have no assignment are over at once, assigned ones when their
// worker says so.
type Cancel struct {
	Job    taskstate.JobID `cbor:"1,keyasint"`
	Reason string          `cbor:"2,keyasint,omitempty"`
}

// Slots is a run of slots, all in the same attempt: First … First+N-1.
type Slots struct {
	_       struct{} `cbor:",toarray"`
	First   int
	N       int
	Attempt int
}

// All yields the numbers of the slots, ascending.
func (r Slots) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := r.First; n < r.First+r.N; n++ {
			if !yield(n) {
				return
			}
		}
	}
}

// AppendSlots adds a run behind others, joining it with the last one where they touch.
func AppendSlots(runs []Slots, x Slots) []Slots {
	if k := len(runs) - 1; k >= 0 && runs[k].Attempt == x.Attempt && runs[k].First+runs[k].N == x.First {
		runs[k].N += x.N
		return runs
	}
	return append(runs, x)
}

// Assign gives slots of one job to one incarnation of one peer. What no longer holds when it is
// applied (the job is cancelled or blocked, the peer has gone or takes nothing, the slot's attempt
// or version has moved on) is refused slot by slot, in the result.
type Assign struct {
	Job         taskstate.JobID       `cbor:"1,keyasint"`
	Peer        taskstate.PeerID      `cbor:"2,keyasint"`
	Incarnation taskstate.Incarnation `cbor:"3,keyasint"`
	Slots       []Slots               `cbor:"4,keyasint"`
	Version     int                   `cbor:"5,keyasint,omitempty"` // of the job: what these slots wait for; 0 for jobs without versions
}

// Settle makes final statuses of one author decisions. An end of a slot that is leaving, or that
// its job's restart policy follows up, is remembered, and the slot waits again (Result.Again). A
// status of a task that is superseded, settled or not assigned to this author is refused in the
// result (settled differently: counted as a conflict). But the success of an attempt that was given
// up, and that its slot remembers, counts as long as its slot has no end: the attempt that took its
// place is over. Other ends of such attempts are refused and remembered.
type Settle struct {
	Peer        taskstate.PeerID      `cbor:"1,keyasint"`
	Incarnation taskstate.Incarnation `cbor:"2,keyasint"`
	Statuses    []taskstate.Status    `cbor:"3,keyasint"`
}

// Supersede gives up an attempt that has not been settled. With Again the slot becomes pending with
// the next attempt number, of the same version; without, Status is its end, written by the
// coordinator.
type Supersede struct {
	Task   taskstate.TaskID  `cbor:"1,keyasint"`
	Reason taskstate.Reason  `cbor:"2,keyasint"`
	Again  bool              `cbor:"3,keyasint,omitempty"`
	Status *taskstate.Status `cbor:"4,keyasint,omitempty"`
}

// Depart records that a peer left on purpose (`left`): no tasks until it registers again.
type Depart struct {
	Peer taskstate.PeerID `cbor:"1,keyasint"`
}

// Register records the incarnation a peer's worker lives in now. Another incarnation than before
// fences the old one: its open tasks are superseded in the same step.
type Register struct {
	Peer        taskstate.PeerID      `cbor:"1,keyasint"`
	Incarnation taskstate.Incarnation `cbor:"2,keyasint"`
	Name        string                `cbor:"3,keyasint,omitempty"`
}

// Code says why a command was refused when it was applied.
type Code string

// The codes of refusals.
const (
	CodeNone        Code = ""
	CodeStale       Code = "stale"       // an older epoch than has been applied
	CodeUnknown     Code = "unknown"     // no such job, task, peer or invite
	CodeExpired     Code = "expired"     // invite past its time
	CodeUsedUp      Code = "used-up"     // invite has no uses left
	CodeRevoked     Code = "revoked"     // invite was revoked
	CodeConflict    Code = "conflict"    // exists and differs
	CodeOver        Code = "over"        // the job or attempt is already over
	CodeSole        Code = "sole-voter"  // removing it would leave nobody to decide
	CodeUnavailable Code = "unavailable" // the peer is paused or drained
	CodePartly      Code = "partly"      // some slots or statuses were refused, listed
	CodeBlocked     Code = "blocked"     // the job waits for others, or only starts others
	CodeDialect     Code = "dialect"     // the peer reads less than the cluster speaks
	CodeUnsigned    Code = "unsigned"    // whoever is said to ask for it did not sign this
	CodeForbidden   Code = "forbidden"   // who signed it has not the role for it
	CodeLate        Code = "late"        // signed too long ago
	CodeInvalid     Code = "invalid"     // the command makes no sense: no id, no slots, several fields set
)

// Update gives a service or global job (Job.ID) another spec. What decides whether its tasks have
// to be started anew is taskstate.Restarts: if so, the job's version rises, the spec before is kept
// and a rollout begins; if not, the spec is replaced and nothing else happens. From is the version
// its author saw: CodeConflict if that has moved on, 0 = whatever it is. The same spec again is
// Existed.
type Update struct {
	Job  taskstate.Job `cbor:"1,keyasint"`
	From int           `cbor:"2,keyasint,omitempty"`
}

// What a lasting job needs next – Renew, Retire, Grow, Rollout – follows from what its author
// saw, and it may be decided long after. So these say in Seen up to which index their author
// knew the ledger: CodeConflict, and nothing is changed, if another entry after that decided
// something about what the job's slots are to be – its spec or rollout, or which of them there are
// or begin anew. 0 = whatever was decided. What one step comes to is decided together: commands
// about slots of one entry are not in each other's way. Batch jobs have nobody who follows them
// like this.

// Renew gives slots a fresh attempt. One that has ended waits again, also in a job that was over;
// one that waits goes on waiting; one that is open leaves: its worker is told to stop it, and
// whatever its end is, the slot waits again. Slots.Attempt is the attempt that was seen, 0 =
// whatever it is; slots that have moved on are refused. A batch job that was cancelled goes on:
// what waited when it was cancelled waits again, too, and failures up to now do not count for
// MaxFails any more.
type Renew struct {
	Job       taskstate.JobID  `cbor:"1,keyasint"`
	Slots     []Slots          `cbor:"2,keyasint"`
	Version   int              `cbor:"3,keyasint,omitempty"` // of the new attempts; 0 = as the slot's now
	Reason    taskstate.Reason `cbor:"4,keyasint,omitempty"`
	NotBefore int64            `cbor:"5,keyasint,omitempty"` // ledger stamp
	Seen      uint64           `cbor:"6,keyasint,omitempty"` // see above
}

// Retire says that slots are not wanted any more. One that waits or has ended is retired at once (a
// batch job's end stands: refused), one that is open leaves for good. Slots.Attempt is as in Renew.
type Retire struct {
	Job    taskstate.JobID  `cbor:"1,keyasint"`
	Slots  []Slots          `cbor:"2,keyasint"`
	Reason taskstate.Reason `cbor:"3,keyasint,omitempty"`
	Seen   uint64           `cbor:"4,keyasint,omitempty"` // see above
}

// Grow adds slots to a service or global job, above the highest there is: N free ones, or one
// pinned to each of Peers. A peer that has a slot already, retired or not, gets no second one:
// Renew that one. Result.Again names the new slots. First is what the first of them is to be, so
// that who decides the same twice, not knowing what became of it, adds nothing the second time:
// CodeConflict if it would be another.
type Grow struct {
	Job     taskstate.JobID    `cbor:"1,keyasint"`
	N       int                `cbor:"2,keyasint,omitempty"`
	Peers   []taskstate.PeerID `cbor:"3,keyasint,omitempty"`
	Version int                `cbor:"4,keyasint,omitempty"` // 0 = the one that is wanted
	First   int                `cbor:"5,keyasint,omitempty"` // 0 = whichever it is
	Seen    uint64             `cbor:"6,keyasint,omitempty"` // see above
}

// Rollout moves the rollout of a lasting job on: the coordinator's progress, or a person's word.
// Paused pauses whatever is going on, Updating continues what is paused, RollingBack begins a
// rollback – the spec before becomes a new version – or continues one. Version is the version it is
// about: CodeConflict if another one is wanted by now, 0 = whatever it is.
type Rollout struct {
	Job     taskstate.JobID        `cbor:"1,keyasint"`
	State   taskstate.RolloutState `cbor:"2,keyasint"`
	Message string                 `cbor:"3,keyasint,omitempty"`
	Version int                    `cbor:"4,keyasint,omitempty"`
	Seen    uint64                 `cbor:"5,keyasint,omitempty"` // see above
	Failed  int                    `cbor:"6,keyasint,omitempty"` // on how many slots the version failed, as its update ended all the same
}

// Availability says whether a peer takes tasks.
type Availability string

// The availabilities; "" means active, too.
const (
	AvailActive Availability = "active"
	AvailPause  Availability = "pause" // no new tasks, what runs goes on
	AvailDrain  Availability = "drain" // no new tasks, what runs goes elsewhere
)

// SetAvailability says whether a peer takes tasks from now on. Grace is how many milliseconds batch
// tasks of a drained peer may go on.
type SetAvailability struct {
	Peer         taskstate.PeerID `cbor:"1,keyasint"`
	Availability Availability     `cbor:"2,keyasint"`
	Grace        int64            `cbor:"3,keyasint,omitempty"`
	Reason       string           `cbor:"4,keyasint,omitempty"`
}

// Label lays labels over those that a peer says of itself. Unset hides one, whatever its source.
type Label struct {
	Peer  taskstate.PeerID  `cbor:"1,keyasint"`
	Set   map[string]string `cbor:"2,keyasint,omitempty"`
	Unset []string          `cbor:"3,keyasint,omitempty"`
}

// Skip records that a schedule did not start a run, because the one before still went on. The next
// coordinator does not make up for it. A moment that was decided before, or that comes before
// the schedule's last change, is Existed.
type Skip struct {
	Job taskstate.JobID `cbor:"1,keyasint"` // the schedule
	At  int64           `cbor:"2,keyasint"` // the moment the run would have been for, in milliseconds since 1970
	Run taskstate.JobID `cbor:"3,keyasint"` // the run that went on
}

// Reads records which dialect a peer reads. The cluster speaks the least of those its members read,
// and never a lower one again: a peer that reads less is refused with CodeDialect, here and by
// Admit.
type ReadsDialect struct {
	Peer    taskstate.PeerID `cbor:"1,keyasint"`
	Dialect int              `cbor:"2,keyasint"`
}

// Pin has a job kept when it is over, whatever its age and however many there are, or, with Not,
// ends that. With MaxPins of them another one is refused with CodeInvalid.
type Pin struct {
	Job taskstate.JobID `cbor:"1,keyasint"`
	Not bool            `cbor:"2,keyasint,omitempty"`
}

// Kept says that a peer keeps what tasks left, too, after their ends were settled; peers in Lost do
// not any more. With Not it is to keep it no longer: that is refused where fewer copies would be
// left than there are to be, or none with whoever submitted the job, and the copy has to stay. With
// Not and itself in Lost it has lost its copy, which nobody can refuse.
type Kept struct {
	Peer  taskstate.PeerID   `cbor:"1,keyasint"`
	Job   taskstate.JobID    `cbor:"2,keyasint"`
	Slots []Slots            `cbor:"3,keyasint"`
	Lost  []taskstate.PeerID `cbor:"4,keyasint,omitempty"`
	Not   bool               `cbor:"5,keyasint,omitempty"`
}

// Set changes settings of the whole cluster while it runs. Zero leaves a setting as it is. What
// would not do (Settings.Check) is refused with CodeInvalid.
type Set struct {
	Beat  int64 `cbor:"1,keyasint,omitempty"` // milliseconds
	Grace int64 `cbor:"2,keyasint,omitempty"` // milliseconds

	// What is kept of jobs that are over. What is above that is forgotten in the same step.
	KeepJobs int   `cbor:"3,keyasint,omitempty"`
	KeepFor  int64 `cbor:"4,keyasint,omitempty"` // milliseconds of ledger stamps

	RequireOrders Switch `cbor:"5,keyasint,omitempty"`
}
