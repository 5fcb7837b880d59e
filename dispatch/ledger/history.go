package ledger

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"covey/taskstate"
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
	State taskstate.State
	Exit  int
	At    int64 // by the worker's clock
	Heard int64 // ledger stamp
	Took  int64 // milliseconds it ran, by the worker's monotonic clock
}

// Conflict is an end that came after another one had been decided for the same task. It changed
// nothing.
type Conflict struct {
	Slot, Attempt int
	Peer          taskstate.PeerID
	State         taskstate.State
	At            int64 // ledger stamp
}

// formerAttempt is a PastAttempt as a job keeps it.
type formerAttempt struct {
	index             uint64
	assigned, givenUp int64
	owner, attempt    uint32
	reason            taskstate.Reason
	late              *LateEnd
	version           uint32
	end               *formerEnd
}

// formerEnd is the end of an attempt that its slot has left behind.
type formerEnd struct {
	endKind
	at  int64
	seq uint32
	lasted
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
	return &formerEnd{endKind: f, at: at, seq: seq, lasted: l}
}

// endOfCell is the end that a cell has.
func endOfCell(j *JobRecord, c cell) *formerEnd {
	return newFormerEnd(j.slots.kinds.list[c.kind-kindFirst], c.end, c.seq, c.lasted)
}

// conflict is a Conflict as a job keeps it.
type conflict struct {
	slot, owner, attempt uint32
	state                taskstate.State
	at                   int64
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
	p.index, p.assigned, p.owner, p.attempt = c.index, c.assigned, c.owner, c.attempt
	h.former[k] = append(list, p)
}

// late takes the end of an attempt that was given up. A success counts if the slot has no end: then
// it is the slot's, and the open attempt that took its place, if there is one, is over. Anything
// else is remembered, and so is a success in a job that lasts: its slots go on. counts is false if
// the end was refused.
func (j *JobRecord) late(by uint32, st *taskstate.Status, stamp int64) (counts bool, overtaken *taskstate.TaskID) {
	list := j.past.former[uint32(st.Task.Slot)]
	i := slices.IndexFunc(list, func(p formerAttempt) bool { return int(p.attempt) == st.Task.Attempt && p.owner == by })
	if i < 0 {
		return false, nil
	}
	if old := list[i].end; old != nil { // it was not given up, it ended
		if *old != *endOf(st) {
			j.past.contradict(st, by, stamp)
		}
		return false, nil
	}
	c, ch := j.slots.peek(st.Task.Slot)
	ended := c.kind >= kindFirst || c.kind != kindOpen && (j.cancelled || j.slots.extrasOf(st.Task.Slot).retired)
	if ended || j.Lasts() || st.State != taskstate.Complete {
		end := LateEnd{State: st.State, Exit: st.Exit, At: st.At, Heard: stamp, Took: st.Took}
		switch old := list[i].late; {
		case old == nil:
			list[i].late = &end
		case old.State != end.State || old.Exit != end.Exit || old.At != end.At:
			j.past.contradict(st, by, stamp)
		}
		return false, nil
	}
	return true, j.overtake(c, ch, list[i], st, stamp)
}

// overtake makes the success of p its slot's end.
func (j *JobRecord) overtake(c *cell, ch *chunk, p formerAttempt, st *taskstate.Status, stamp int64) (overtaken *taskstate.TaskID) {
	n := st.Task.Slot
	if c.kind == kindOpen {
		t := taskstate.Task(j.job.ID, n, int(c.attempt))
		overtaken = &t
		j.past.remember(n, c, formerAttempt{givenUp: stamp, reason: taskstate.ReasonOvertaken})
	} else { // as if it had been given out and were open
		j.slots.pending.remove(Slots{First: n, N: 1, Attempt: j.slots.attempt(*c)}, func(int, int) {}, nil)
		j.slots.counts.Pending--
		j.slots.counts.Open++
		c.owner = p.owner
		j.slots.open[c.owner]++
		ch.open++
	}
	j.slots.closeOpen(c, ch)
	*c = cell{
		index: p.index, assigned: p.assigned, owner: p.owner, attempt: p.attempt,
		kind: j.slots.kinds.id(endKindOf(st)), end: st.At, seq: seq32(st), lasted: lastedOf(st),
	}
	if x := j.slots.extrasOf(n); x.retired {
		x.leaving = false // the attempt that was to go is over
		j.slots.putExtras(n, x)
		j.slots.counts.Retired++
	} else {
		j.slots.putExtras(n, slotExtras{})
		j.slots.counts.count(st.State, 1)
	}
	return overtaken
}

// left tells whether a slot has left an attempt behind that is newer than the one it is in: an
// earlier one overtook it. Any other newer attempt is one that is still to be heard of, also where
// a slot has ended or is not wanted: it may be renewed.
func (h *pastAttempts) left(t taskstate.TaskID) bool {
	return slices.ContainsFunc(h.former[uint32(t.Slot)], func(p formerAttempt) bool { return int(p.attempt) == t.Attempt })
}

// contradict keeps an end that came too late to count.
func (h *pastAttempts) contradict(st *taskstate.Status, owner uint32, stamp int64) {
	h.conflicts++
	if len(h.conflicted) >= KeepConflicts {
		h.conflicted = slices.Delete(h.conflicted, 0, len(h.conflicted)-KeepConflicts+1)
	}
	h.conflicted = append(h.conflicted, conflict{
		slot: uint32(st.Task.Slot), owner: owner, attempt: uint32(st.Task.Attempt), state: st.State, at: stamp,
	})
}

// Past lists what is remembered of the attempts that a slot has left behind, the oldest first.
func (j *JobRecord) Past(slot int) []PastAttempt {
	var out []PastAttempt
	for _, p := range j.past.former[uint32(slot)] {
		o := j.slots.owners.list[p.owner]
		a := PastAttempt{
			Attempt: int(p.attempt), Peer: o.Peer, Incarnation: o.Incarnation, Index: p.index,
			AssignedAt: p.assigned, GivenUpAt: p.givenUp, Reason: p.reason, Late: p.late, Version: int(p.version),
		}
		if e := p.end; e != nil {
			st := e.status(taskstate.Task(j.job.ID, slot, a.Attempt), e.seq, e.at, e.lasted)
			st.Index = p.index
			a.End = &st
		}
		out = append(out, a)
	}
	return out
}

// PastSlots yields the slots of which Past remembers something, ascending.
func (j *JobRecord) PastSlots() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, n := range slices.Sorted(maps.Keys(j.past.former)) {
			if !yield(int(n)) {
				return
			}
		}
	}
}

// Contradictions lists the newest of the ends that came after another one had been decided for the
// same task, the oldest first.
func (j *JobRecord) Contradictions() []Conflict {
	var out []Conflict
	for _, c := range j.past.conflicted {
		out = append(out, Conflict{
			Slot: int(c.slot), Attempt: int(c.attempt), Peer: j.slots.owners.list[c.owner].Peer, State: c.state, At: c.at,
		})
	}
	return out
}

// AcceptedBy tells who coordinated when the job was accepted, and in which epoch; "" for jobs from
// before this was kept.
func (j *JobRecord) AcceptedBy() (taskstate.PeerID, taskstate.Epoch) { return j.by, j.epoch }
