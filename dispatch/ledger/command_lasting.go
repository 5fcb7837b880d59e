package ledger

import "covey/taskstate"

// Update gives a service or global job (Job.ID) another spec. What decides whether its tasks have to be started anew is
// taskstate.Restarts: if so, the job's version rises, the spec before is kept and a rollout begins; if not, the spec is replaced and
// nothing else happens. From is the version its author saw: CodeConflict if that has moved on, 0 = whatever it is. The same spec again
// is Existed.
type Update struct {
	Job  taskstate.Job `cbor:"1,keyasint"`
	From int           `cbor:"2,keyasint,omitempty"`
}

// What a lasting job needs next – Renew, Retire, Grow, Rollout – follows from what whoever decides it saw, and it may be decided long after.
// So these say in Seen up to which index their author knew the ledger: CodeConflict, and nothing is changed, if another entry after that decided
// something about what the job's slots are to be – its spec or rollout, or which of them there are or begin anew. 0 = whatever was decided. What one
// step comes to is decided together: commands about slots of one entry are not in each other's way. Batch jobs have nobody who follows them
// like this.

// Renew gives slots a fresh attempt. One that has ended waits again, also in a job that was over; one that waits goes on waiting; one
// that is open leaves: its worker is told to stop it, and whatever its end is, the slot waits again. Slots.Attempt is the attempt
// that was seen, 0 = whatever it is; slots that have moved on are refused. A batch job that was cancelled goes on: what waited when it
// was cancelled waits again, too, and failures up to now do not count for MaxFails any more.
type Renew struct {
	Job       taskstate.JobID  `cbor:"1,keyasint"`
	Slots     []Slots          `cbor:"2,keyasint"`
	Version   int              `cbor:"3,keyasint,omitempty"` // of the new attempts; 0 = as the slot's now
	Reason    taskstate.Reason `cbor:"4,keyasint,omitempty"`
	NotBefore int64            `cbor:"5,keyasint,omitempty"` // ledger stamp
	Seen      uint64           `cbor:"6,keyasint,omitempty"` // see above
}

// Retire says that slots are not wanted any more. One that waits or has ended is retired at once (a batch job's end stands: refused),
// one that is open leaves for good. Slots.Attempt is as in Renew.
type Retire struct {
	Job    taskstate.JobID  `cbor:"1,keyasint"`
	Slots  []Slots          `cbor:"2,keyasint"`
	Reason taskstate.Reason `cbor:"3,keyasint,omitempty"`
	Seen   uint64           `cbor:"4,keyasint,omitempty"` // see above
}

// Grow adds slots to a service or global job, above the highest there is: N free ones, or one pinned to each of Peers. A peer that has a
// slot already, retired or not, gets no second one: Renew that one. Result.Again names the new slots. First is what the first of them is to be,
// so that who decides the same twice, not knowing what became of it, adds nothing the second time: CodeConflict if it would be another.
type Grow struct {
	Job     taskstate.JobID    `cbor:"1,keyasint"`
	N       int                `cbor:"2,keyasint,omitempty"`
	Peers   []taskstate.PeerID `cbor:"3,keyasint,omitempty"`
	Version int                `cbor:"4,keyasint,omitempty"` // 0 = the one that is wanted
	First   int                `cbor:"5,keyasint,omitempty"` // 0 = whichever it is
	Seen    uint64             `cbor:"6,keyasint,omitempty"` // see above
}

// RolloutState says how far the tasks of a lasting job follow its version.
type RolloutState string

// The states of a rollout.
const (
	NoRollout      RolloutState = "" // never updated
	Updating       RolloutState = "updating"
	Paused         RolloutState = "paused"
	Completed      RolloutState = "completed"
	RollingBack    RolloutState = "rolling-back"
	RolledBack     RolloutState = "rolled-back"
	RollbackPaused RolloutState = "rollback-paused"
)

// Active tells whether slots of other versions are still to be renewed, now or once somebody says go on.
func (s RolloutState) Active() bool {
	return s == Updating || s == Paused || s == RollingBack || s == RollbackPaused
}

// Rollout moves the rollout of a lasting job on: the coordinator's progress, or a person's word. Paused pauses whatever is going on,
// Updating continues what is paused, RollingBack begins a rollback – the spec before becomes a new version – or continues one.
// Version is the version it is about: CodeConflict if another one is wanted by now, 0 = whatever it is.
type Rollout struct {
	Job     taskstate.JobID `cbor:"1,keyasint"`
	State   RolloutState    `cbor:"2,keyasint"`
	Message string          `cbor:"3,keyasint,omitempty"`
	Version int             `cbor:"4,keyasint,omitempty"`
	Seen    uint64          `cbor:"5,keyasint,omitempty"` // see above
	Failed  int             `cbor:"6,keyasint,omitempty"` // on how many slots the version failed, as its update ended all the same
}

// Availability says whether a peer takes tasks.
type Availability string

// The availabilities; "" means active, too.
const (
	AvailActive Availability = "active"
	AvailPause  Availability = "pause" // no new tasks, what runs goes on
	AvailDrain  Availability = "drain" // no new tasks, what runs goes elsewhere
)

// Avail says whether a peer takes tasks from now on. Grace is how many milliseconds batch tasks of a drained peer may go on.
type Avail struct {
	Peer         taskstate.PeerID `cbor:"1,keyasint"`
	Availability Availability     `cbor:"2,keyasint"`
	Grace        int64            `cbor:"3,keyasint,omitempty"`
	Reason       string           `cbor:"4,keyasint,omitempty"`
}

// Label lays labels over those that a peer says of itself. Unset hides one, whoever it comes from.
type Label struct {
	Peer  taskstate.PeerID  `cbor:"1,keyasint"`
	Set   map[string]string `cbor:"2,keyasint,omitempty"`
	Unset []string          `cbor:"3,keyasint,omitempty"`
}
