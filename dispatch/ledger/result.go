package ledger

import "github.com/coveyproject/covey/taskstate"

// Result answers one command. A zero Result is plain success.
type Result struct {
	Refused  Code               // why nothing, or not all, was done
	Existed  bool               // Submit: the job was already there
	Slots    []Slots            // Assign: what was refused
	Statuses []taskstate.TaskID // Settle: what was refused or already settled
	// Settle: attempts that were open and are over, because an earlier attempt of their slot had
	// succeeded.
	Overtaken []taskstate.TaskID

	Again    []Again           // slots that wait now because of this command, with the attempts they wait for
	Released []taskstate.JobID // jobs that were blocked and are not any more
	Cut      []taskstate.JobID // jobs that were cancelled as a consequence: max_fails, or a predecessor that failed
	Job      taskstate.JobID   // Submit: the job that has the name; skipped, the run that goes on
	Skipped  bool              // Submit: nothing was accepted, but a start of a schedule recorded as skipped: another run goes on
	Missing  taskstate.JobID   // Submit: the job of After or Origin that is not known
	Version  int               // Update, Rollout: the version that is wanted now
	Reopened *Outline          // Renew: the job was over, and goes on

	// Now is the job after a command that changed what it is to be: Submit, Update, Rollout, Renew,
	// Retire, Grow. Of its slots it has those that leave now, were retired, or added for one peer.
	// It follows from the rest, and is no part of what replicas compare.
	Now *Outline `cbor:"-"`
	// Along are the jobs that were cut because of one that goes on after a Renew, and wait for it
	// again. It follows from the rest, too: what of them waits is in Again.
	Along []*Outline `cbor:"-"`
	// Signed tells of an Update that the job is as it was, and only its order is another one. It
	// is no part of it.
	Signed bool `cbor:"-"`
	// Member is who is a member, after a command that changed that. It is no part of it either.
	Member *Member `cbor:"-"`
}

// Again is a run of slots that wait for somebody to be given them.
type Again struct {
	Job       taskstate.JobID
	Slots     Slots
	Version   int
	NotBefore int64 // ledger stamp before which they do not start; 0 = at once
}

// RolloutRecord is how far the tasks of a lasting job follow its version.
type RolloutRecord struct {
	State   taskstate.RolloutState `cbor:"1,keyasint,omitempty"`
	Message string                 `cbor:"2,keyasint,omitempty"`
	Since   int64                  `cbor:"3,keyasint,omitempty"` // ledger stamp of State
	Began   int64                  `cbor:"4,keyasint,omitempty"` // ledger stamp at which Version began to be wanted
	Failed  int                    `cbor:"5,keyasint,omitempty"` // on how many slots Version failed, as its update ended all the same
	Version int                    `cbor:"-"`                    // the version that is wanted: Job().Version
	From    int                    `cbor:"-"`                    // the version before, to which a rollback goes; 0 = none
}

// SlotRecord is one slot: its newest attempt. Peer, Incarnation, Index and AssignedAt belong to
// that attempt and are zero while it is pending.
type SlotRecord struct {
	Slot        int
	Attempt     int
	Open        bool // assigned, not settled
	Peer        taskstate.PeerID
	Incarnation taskstate.Incarnation
	Index       uint64            // ledger index of the assignment
	AssignedAt  int64             // ledger stamp of the assignment
	Final       *taskstate.Status // its end, once decided

	Version   int              // of the job that the attempt is of; 0 for jobs without versions
	Leaving   taskstate.Reason // open, and its worker is to stop it: why; "" = it is not
	Next      int              // leaving: version of the attempt that follows
	Retired   bool             // not wanted any more; while open: leaving for good
	NotBefore int64            // pending: ledger stamp before which it does not start; 0 = at once
	Pin       taskstate.PeerID // the only peer it may go to; "" = any
}

// Pending tells whether the slot waits for somebody to be given it.
func (r SlotRecord) Pending() bool { return !r.Open && r.Final == nil }

// Outline is what there is to know of a job to drive it, besides which of its slots wait and who
// has the others. It is immutable.
type Outline struct {
	Job        *taskstate.Job
	Index      uint64 // of acceptance
	StartsFrom int64  // see JobRecord.StartsFrom
	First      int    // number of the first attempt of a slot that has had none: 1 unless the ledger was recovered
	Blocked    bool   // waits for other jobs

	// Of a lasting job; Slots are all there are, from slot 1.
	Versions map[int]*taskstate.Job
	Rollout  RolloutRecord
	Slots    []SlotRecord

	// Only in a Result: versions that want the same as Job. Their slots count as of its version.
	Same []int `cbor:"-"`
}
