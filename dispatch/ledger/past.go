package ledger

import (
	"iter"
	"maps"
	"slices"

	"covey/taskstate"
)

// Bounds of what a job remembers about attempts that do not count. A slot that never was given up costs nothing.
const (
	KeepPast      = 5       // attempts of one slot that were given up: the newest
	KeepPastSlots = 1 << 16 // slots of one job with such attempts: those of further slots are not remembered
	KeepConflicts = 16      // contradictory ends of one job: the newest
)

// PastAttempt is an attempt that was given up, so that its slot got another.
type PastAttempt struct {
	Attempt     int
	Peer        taskstate.PeerID
	Incarnation taskstate.Incarnation
	Index       uint64 // ledger index of the assignment
	AssignedAt  int64  // ledger stamps
	GivenUpAt   int64
	Reason      taskstate.Reason
}

// Conflict is an end that came after another one had been decided for the same task. It changed nothing.
type Conflict struct {
	Slot, Attempt int
	Peer          taskstate.PeerID
	State         taskstate.State
	At            int64 // ledger stamp
}

// past is a PastAttempt as a job keeps it.
type past struct {
	index             uint64
	assigned, givenUp int64
	owner, attempt    uint32
	reason            taskstate.Reason
}

// conflict is a Conflict as a job keeps it.
type conflict struct {
	slot, owner, attempt uint32
	state                taskstate.State
	at                   int64
}

// remember keeps the attempt that slot n is in before it is given up.
func (j *JobRecord) remember(n int, c *cell, stamp int64, why taskstate.Reason) {
	k := uint32(n)
	list, ok := j.past[k]
	if !ok && len(j.past) >= KeepPastSlots {
		return
	}
	if j.past == nil {
		j.past = map[uint32][]past{}
	}
	if len(list) >= KeepPast {
		list = slices.Delete(list, 0, len(list)-KeepPast+1)
	}
	j.past[k] = append(list, past{
		index: c.index, assigned: c.assigned, givenUp: stamp, owner: c.owner, attempt: c.attempt, reason: why,
	})
}

// contradict keeps an end that came too late to count.
func (j *JobRecord) contradict(st *taskstate.Status, owner uint32, stamp int64) {
	j.conflicts++
	if len(j.conflicted) >= KeepConflicts {
		j.conflicted = slices.Delete(j.conflicted, 0, len(j.conflicted)-KeepConflicts+1)
	}
	j.conflicted = append(j.conflicted, conflict{
		slot: uint32(st.Task.Slot), owner: owner, attempt: uint32(st.Task.Attempt), state: st.State, at: stamp,
	})
}

// Past lists what is remembered of a slot's attempts that were given up, the oldest first.
func (j *JobRecord) Past(slot int) []PastAttempt {
	var out []PastAttempt
	for _, p := range j.past[uint32(slot)] {
		o := j.owners.list[p.owner]
		out = append(out, PastAttempt{
			Attempt: int(p.attempt), Peer: o.Peer, Incarnation: o.Incarnation, Index: p.index,
			AssignedAt: p.assigned, GivenUpAt: p.givenUp, Reason: p.reason,
		})
	}
	return out
}

// PastSlots yields the slots of which Past remembers something, ascending.
func (j *JobRecord) PastSlots() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, n := range slices.Sorted(maps.Keys(j.past)) {
			if !yield(int(n)) {
				return
			}
		}
	}
}

// Contradictions lists the newest of the ends that Conflicts counts, the oldest first.
func (j *JobRecord) Contradictions() []Conflict {
	var out []Conflict
	for _, c := range j.conflicted {
		out = append(out, Conflict{
			Slot: int(c.slot), Attempt: int(c.attempt), Peer: j.owners.list[c.owner].Peer, State: c.state, At: c.at,
		})
	}
	return out
}

// AcceptedBy tells who coordinated when the job was accepted, and in which epoch; "" for jobs from before this was kept.
func (j *JobRecord) AcceptedBy() (taskstate.PeerID, taskstate.Epoch) { return j.by, j.epoch }
