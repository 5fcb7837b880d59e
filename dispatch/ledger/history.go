package ledger

import (
	"slices"
	"strings"

	"github.com/coveyproject/covey/taskstate"
)

// Bounds of what a job remembers about attempts that do not count. A slot that never was given up
// costs nothing.
const (
	KeepPast      = 5       // attempts of one slot that were given up: the newest
	KeepPastSlots = 1 << 16 // slots of one job with such attempts: those of further slots are not remembered
	KeepConflicts = 16      // contradictory ends of one job: the newest
)

// PastAttempt is an attempt that its slot has left behind: it was given up, or it ended and the
// slot got another.
type PastAttempt struct {
	Attempt     int
	Peer        taskstate.PeerID
	Incarnation taskstate.Incarnation
	Index       uint64 // ledger index of the assignment
	AssignedAt  int64  // ledger stamps
	GivenUpAt   int64
	Reason      taskstate.Reason
	Version     int               // of the job; 0 for jobs without versions
	End         *taskstate.Status // its end, if the slot got another attempt because of it or after it; nil: it was given up
	Late        *LateEnd          // given up: its end, if that was heard of all the same and did not count
}

// LateEnd is the end of an attempt that had been given up.
type LateEnd struct {
	State taskstate.State `cbor:"1,keyasint"`
	Exit  int             `cbor:"2,keyasint,omitempty"`
	At    int64           `cbor:"3,keyasint,omitempty"` // by the worker's clock
	Heard int64           `cbor:"4,keyasint,omitempty"` // ledger stamp
	Took  int64           `cbor:"5,keyasint,omitempty"` // milliseconds it ran, by the worker's monotonic clock
}

// Conflict is an end that came after another one had been decided for the same task. It changed
// nothing.
type Conflict struct {
	Slot, Attempt int
	Peer          taskstate.PeerID
	State         taskstate.State
	At            int64 // ledger stamp
}

// formerAttempt is a PastAttempt as a job and its snapshot keep it. Owner is a position in a list
// of owners.
type formerAttempt struct {
	Index    uint64           `cbor:"1,keyasint"`
	Assigned int64            `cbor:"2,keyasint"`
	GivenUp  int64            `cbor:"3,keyasint"`
	Owner    uint32           `cbor:"4,keyasint"`
	Attempt  uint32           `cbor:"5,keyasint"`
	Reason   taskstate.Reason `cbor:"6,keyasint,omitempty"`
	Version  uint32           `cbor:"7,keyasint,omitempty"`
	Late     *LateEnd         `cbor:"8,keyasint,omitempty"`
	End      *formerEnd       `cbor:"9,keyasint,omitempty"`
}

// formerEnd is the end of an attempt that its slot has left behind.
type formerEnd struct {
	Kind   endKind `cbor:"1,keyasint"`
	At     int64   `cbor:"2,keyasint"`
	Seq    uint32  `cbor:"3,keyasint"`
	Lasted lasted  `cbor:"4,keyasint"`
}

func endOf(st *taskstate.Status) *formerEnd {
	if st == nil {
		return nil
	}
	return newFormerEnd(endKindOf(st), st.At, seq32(st), lastedOf(st))
}

// maxPastMessage caps what is kept of the message of such an end, in bytes.
const maxPastMessage = 200

func newFormerEnd(f endKind, at int64, seq uint32, l lasted) *formerEnd {
	if len(f.Message) > maxPastMessage {
		f.Message = strings.Clone(strings.ToValidUTF8(f.Message[:maxPastMessage], ""))
	}
	return &formerEnd{Kind: f, At: at, Seq: seq, Lasted: l}
}

// conflict is a Conflict as a job and its snapshot keep it.
type conflict struct {
	_       struct{} `cbor:",toarray"`
	Slot    uint32
	Attempt uint32
	Owner   uint32
	State   taskstate.State
	At      int64
}

// pastAttempts is what a job remembers of the attempts that its slots have left behind, and of ends
// that came too late to count. Only the job's record calls it.
type pastAttempts struct {
	former     map[uint32][]formerAttempt // by slot; see KeepPast
	conflicts  int
	conflicted []conflict // the newest of conflicts
}

// remember keeps the attempt that slot n is in before the slot leaves it behind. Of p, the cell
// says who had it.
func (h *pastAttempts) remember(n int, c *cell, p formerAttempt) {
	k := uint32(n)
	list, ok := h.former[k]
	if !ok && len(h.former) >= KeepPastSlots {
		return
	}
	if h.former == nil {
		h.former = map[uint32][]formerAttempt{}
	}
	if len(list) >= KeepPast {
		list = slices.Delete(list, 0, len(list)-KeepPast+1)
	}
	p.Index, p.Assigned, p.Owner, p.Attempt = c.index, c.assigned, c.owner, c.attempt
	h.former[k] = append(list, p)
}

// left tells whether a slot has left an attempt behind that is newer than the one it is in: an
// earlier one overtook it. Any other newer attempt is one that is still to be heard of, also where
// a slot has ended or is not wanted: it may be renewed.
func (h *pastAttempts) left(t taskstate.TaskID) bool {
	return slices.ContainsFunc(h.former[uint32(t.Slot)], func(p formerAttempt) bool { return int(p.Attempt) == t.Attempt })
}

// newest is the highest number of an attempt that slot n has left behind; 0 if there is none.
func (h *pastAttempts) newest(n int) (attempt uint32) {
	for _, p := range h.former[uint32(n)] {
		attempt = max(attempt, p.Attempt)
	}
	return attempt
}

// contradict keeps an end that came too late to count.
func (h *pastAttempts) contradict(st *taskstate.Status, owner uint32, stamp int64) {
	h.conflicts++
	if len(h.conflicted) >= KeepConflicts {
		h.conflicted = slices.Delete(h.conflicted, 0, len(h.conflicted)-KeepConflicts+1)
	}
	h.conflicted = append(h.conflicted, conflict{
		Slot: uint32(st.Task.Slot), Attempt: uint32(st.Task.Attempt), Owner: owner, State: st.State, At: stamp,
	})
}
