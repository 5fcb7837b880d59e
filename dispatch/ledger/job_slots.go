package ledger

import (
	"iter"
	"math"

	"covey/taskstate"
)

// cell is one slot that was assigned at least once, in 48 bytes. What was never assigned has no
// cell, or a zero one.
type cell struct {
	index    uint64 // of the assignment
	assigned int64  // ledger stamp of the assignment
	end      int64  // worker's clock, as its final status says
	owner    uint32
	attempt  uint32 // the attempt it is in, or waits for
	seq      uint32 // number of the final status
	kind     uint32 // where it is: below kindFirst as named, else the kind of its end
	lasted
}

// lasted is how long an attempt that ended had waited at its worker and how long it ran,
// milliseconds by the worker's monotonic clock.
type lasted struct{ took, waited uint32 }

// lastedOf reads it off an end. What does not fit – more than 49 days – is in the end's kind.
func lastedOf(st *taskstate.Status) lasted {
	l := lasted{waited: uint32(min(max(0, st.Waited), math.MaxUint32))}
	if st.Took >= 0 && st.Took <= math.MaxUint32 {
		l.took = uint32(st.Took)
	}
	return l
}

const (
	kindUntouched uint32 = iota // never assigned: waits for attempt 1
	kindPending                 // given up before: waits for attempt cell.attempt
	kindOpen                    // assigned
	kindFirst                   // kinds.list[kind-kindFirst]
)

// attempt is the attempt a slot is in, or waits for.
func (j *JobRecord) attempt(c cell) int {
	if c.kind == kindUntouched || c.kind == kindPending {
		return int(max(c.attempt, j.first, 1))
	}
	return int(c.attempt)
}

// endKind is what ends have in common: most slots of a job end alike.
type endKind struct {
	State     taskstate.State  `cbor:"1,keyasint"`
	Exit      int              `cbor:"2,keyasint,omitempty"`
	Signal    int              `cbor:"3,keyasint,omitempty"`
	Reason    taskstate.Reason `cbor:"4,keyasint,omitempty"`
	Message   string           `cbor:"5,keyasint,omitempty"`
	Truncated bool             `cbor:"6,keyasint,omitempty"`
	Took      int64            `cbor:"7,keyasint,omitempty"` // milliseconds, if they do not fit lasted
}

type endKinds struct {
	list []endKind
	ids  map[endKind]uint32
	last uint32 // index of the kind asked for last
}

func endKindOf(st *taskstate.Status) endKind {
	f := endKind{State: st.State, Exit: st.Exit, Signal: st.Signal, Reason: st.Reason, Message: st.Message, Truncated: st.Truncated}
	if st.Took > math.MaxUint32 {
		f.Took = st.Took
	}
	return f
}

// status is the end of a task that ended so, without its index.
func (f endKind) status(t taskstate.TaskID, seq uint32, at int64, l lasted) taskstate.Status {
	return taskstate.Status{
		Task: t, Seq: uint64(seq), State: f.State, At: at, Exit: f.Exit, Signal: f.Signal, Reason: f.Reason, Message: f.Message,
		Took: max(f.Took, int64(l.took)), Waited: int64(l.waited), Truncated: f.Truncated,
	}
}

// id gives a kind its number for cell.kind.
func (f *endKinds) id(x endKind) uint32 {
	if int(f.last) < len(f.list) && f.list[f.last] == x {
		return f.last + kindFirst
	}
	n, ok := f.ids[x]
	if !ok {
		if f.ids == nil {
			f.ids = map[endKind]uint32{}
		}
		n = uint32(len(f.list))
		f.list = append(f.list, x)
		f.ids[x] = n
	}
	f.last = n
	return n + kindFirst
}

// tidyKinds numbers the ends anew that are some slot's still. Slots that are renewed for years end
// in many ways; and what a job weighs must not depend on what it was long ago.
func (j *JobRecord) tidyKinds() {
	if !j.stale {
		return
	}
	j.stale = false
	var kept endKinds
	for k := range j.slots.chunks {
		cells := j.slots.chunks[k].cells
		for i := range cells {
			if f := cells[i].kind; f >= kindFirst {
				cells[i].kind = kept.id(j.kinds.list[f-kindFirst])
			}
		}
	}
	j.kinds = kept
}

// chunkSize is a compromise: small enough that a scan for open slots skips most, large enough to be
// cheap to keep.
const chunkSize = 256

type chunk struct {
	cells []cell
	open  int
}

// slotTable holds the cells of a job in chunks that exist once one of their slots was assigned.
type slotTable struct {
	count  int
	chunks []chunk
}

// get returns the cell of slot n (1 … count); a zero one if it was never touched.
func (t *slotTable) get(n int) cell {
	k, i := (n-1)/chunkSize, (n-1)%chunkSize
	if k >= len(t.chunks) || i >= len(t.chunks[k].cells) {
		return cell{}
	}
	return t.chunks[k].cells[i]
}

// peek returns the cell of slot n (1 … count) and its chunk; nil if none of the chunk's slots was
// ever assigned.
func (t *slotTable) peek(n int) (*cell, *chunk) {
	k, i := (n-1)/chunkSize, (n-1)%chunkSize
	if k >= len(t.chunks) || i >= len(t.chunks[k].cells) {
		return nil, nil
	}
	return &t.chunks[k].cells[i], &t.chunks[k]
}

// at returns the cell of slot n (1 … count) for writing, and its chunk. A cell exists only for what
// was assigned, or moved on unassigned: use peek to look.
func (t *slotTable) at(n int) (*cell, *chunk) {
	k, i := (n-1)/chunkSize, (n-1)%chunkSize
	if k >= len(t.chunks) {
		t.chunks = append(t.chunks, make([]chunk, k+1-len(t.chunks))...)
	}
	c := &t.chunks[k]
	if i >= len(c.cells) { // none yet, or those of a job that has grown since
		grown := make([]cell, min(chunkSize, t.count-k*chunkSize))
		copy(grown, c.cells)
		c.cells = grown
	}
	return &c.cells[i], c
}

// opened yields the open slots, ascending. The cell may be changed meanwhile.
func (t *slotTable) opened() iter.Seq2[int, *cell] {
	return func(yield func(int, *cell) bool) {
		for k := range t.chunks {
			if t.chunks[k].open == 0 {
				continue
			}
			for i := range t.chunks[k].cells {
				c := &t.chunks[k].cells[i]
				if c.kind == kindOpen && !yield(k*chunkSize+i+1, c) {
					return
				}
			}
		}
	}
}
