package ledger

import (
	"iter"
	"math"

	"github.com/coveyproject/covey/taskstate"
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
type lasted struct {
	_      struct{} `cbor:",toarray"`
	Took   uint32
	Waited uint32
}

// lastedOf reads it off an end. What does not fit – more than 49 days – is in the end's kind.
func lastedOf(st *taskstate.Status) lasted {
	l := lasted{Waited: uint32(min(max(0, st.Waited), math.MaxUint32))}
	if st.Took >= 0 && st.Took <= math.MaxUint32 {
		l.Took = uint32(st.Took)
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
func (t *slotTable) attempt(c cell) int {
	if c.kind == kindUntouched || c.kind == kindPending {
		return int(max(c.attempt, t.first, 1))
	}
	return int(c.attempt)
}

// endKind is what ends have in common: most slots of a job end alike.
type endKind struct {
	State     taskstate.State    `cbor:"1,keyasint"`
	Exit      int                `cbor:"2,keyasint,omitempty"`
	Signal    int                `cbor:"3,keyasint,omitempty"`
	Reason    taskstate.Reason   `cbor:"4,keyasint,omitempty"`
	Message   string             `cbor:"5,keyasint,omitempty"`
	Truncated bool               `cbor:"6,keyasint,omitempty"`
	Took      int64              `cbor:"7,keyasint,omitempty"` // milliseconds, if they do not fit lasted
	Held      taskstate.Confined `cbor:"8,keyasint,omitempty"`
}

type endKinds struct {
	list []endKind
	ids  map[endKind]uint32
	last uint32 // index of the kind asked for last
}

func endKindOf(st *taskstate.Status) endKind {
	f := endKind{State: st.State, Exit: st.Exit, Signal: st.Signal, Reason: st.Reason, Message: st.Message, Truncated: st.Truncated, Held: st.Held}
	if st.Took > math.MaxUint32 {
		f.Took = st.Took
	}
	return f
}

// status is the end of a task that ended so, without its index.
func (f endKind) status(t taskstate.TaskID, seq uint32, at int64, l lasted) taskstate.Status {
	return taskstate.Status{
		Task: t, Seq: uint64(seq), State: f.State, At: at, Exit: f.Exit, Signal: f.Signal, Reason: f.Reason, Message: f.Message,
		Took: max(f.Took, int64(l.Took)), Waited: int64(l.Waited), Truncated: f.Truncated, Held: f.Held,
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
func (t *slotTable) tidyKinds() {
	if !t.stale {
		return
	}
	t.stale = false
	var kept endKinds
	for k := range t.chunks {
		cells := t.chunks[k].cells
		for i := range cells {
			if f := cells[i].kind; f >= kindFirst {
				cells[i].kind = kept.id(t.kinds.list[f-kindFirst])
			}
		}
	}
	t.kinds = kept
}

// chunkSize is a compromise: small enough that a scan for open slots skips most, large enough to be
// cheap to keep.
const chunkSize = 256

type chunk struct {
	cells []cell
	open  int
}

// slotTable is where each slot of a job is: the cells of those that were assigned, in chunks that
// exist once one of their slots was, the runs of those that wait, and what follows from both. Only
// the job's record calls it.
type slotTable struct {
	count   int
	chunks  []chunk
	kinds   endKinds
	stale   bool // kinds may have some that no slot has any more
	pending runs
	counts  Counts
	owners  *owners
	open    map[uint32]int         // open slots by owner
	extras  map[uint32]*slotExtras // by slot: what only few slots have

	saves     bool        // files of its tasks are kept
	saved     *savedTable // of slots that have ended; nil: of none
	versioned bool        // the job has versions
	first     uint32      // number of the first attempt begun from now on, if it is higher than what comes next; see raise
}

// get returns the cell of slot n (1 … count); a zero one if it was never touched.
func (t *slotTable) get(n int) cell {
	if c, _ := t.peek(n); c != nil {
		return *c
	}
	return cell{}
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

// begun forgets when slots were to start, as they have.
func (t *slotTable) begun(first, n int) {
	if len(t.extras) == 0 {
		return
	}
	for i := first; i < first+n; i++ {
		if x := t.extrasOf(i); x.NotBefore != 0 {
			x.NotBefore = 0
			t.putExtras(i, x)
		}
	}
}

// within cuts a run to the slots there are.
func (t *slotTable) within(want Slots) (inside Slots, outside []Slots) {
	count := t.count
	if want.N <= 0 {
		return Slots{}, nil
	}
	if want.First > count || want.First < -MaxSlots {
		return Slots{}, []Slots{want}
	}
	if want.First < 1 {
		n := min(want.N, 1-want.First)
		outside = append(outside, Slots{First: want.First, N: n, Attempt: want.Attempt})
		want.First, want.N = want.First+n, want.N-n
	}
	if most := count - want.First + 1; want.N > most {
		outside = append(outside, Slots{First: count + 1, N: want.N - most, Attempt: want.Attempt})
		want.N = most
	}
	return want, outside
}

// eachSlot calls f for the slots of runs that there are, and lists those that f, or their absence,
// refuses.
func (t *slotTable) eachSlot(runs []Slots, f func(n, attempt int) bool) Result {
	var refused []Slots
	for _, want := range runs {
		inside, outside := t.within(want)
		refused = append(refused, outside...)
		for n := range inside.All() {
			if !f(n, want.Attempt) {
				refused = AppendSlots(refused, Slots{First: n, N: 1, Attempt: want.Attempt})
			}
		}
	}
	if len(refused) > 0 {
		return Result{Refused: CodePartly, Slots: refused}
	}
	return Result{}
}

// settle closes an open slot.
func (t *slotTable) settle(n int, c *cell, ch *chunk, st *taskstate.Status) {
	c.kind, c.end, c.seq, c.lasted = t.kinds.id(endKindOf(st)), st.At, seq32(st), lastedOf(st)
	if t.saves {
		t.keep(n, c, t.keptOf(st))
	}
	t.closeOpen(c, ch)
	t.counts.count(st.State, 1)
}

// closeOpen takes a slot out of the open ones.
func (t *slotTable) closeOpen(c *cell, ch *chunk) {
	ch.open--
	t.counts.Open--
	if t.open[c.owner]--; t.open[c.owner] == 0 {
		delete(t.open, c.owner)
	}
}

// finish closes an open slot for good, as far as its job's own rules go.
func (t *slotTable) finish(n int, c *cell, ch *chunk, st *taskstate.Status) {
	t.settle(n, c, ch, st)
	x := t.extrasOf(n)
	if x.Retired {
		t.counts.count(st.State, -1)
		t.counts.Retired++
	}
	x.Leaving, x.Next, x.NotBefore, x.History = false, 0, 0, taskstate.History{}
	if !x.Retired {
		x.Reason = ""
	}
	t.putExtras(n, x)
}

// raise moves the numbers of the attempts that are still to begin to the next multiple of
// attemptGap, plus one. Attempts that are open keep theirs: their workers go on with them.
func (t *slotTable) raise() {
	top := 1
	for _, r := range t.pending {
		top = max(top, r.Attempt)
	}
	for k := range t.chunks {
		for _, c := range t.chunks[k].cells {
			top = max(top, int(c.attempt))
		}
	}
	first := AttemptBeyond(top)
	t.first = uint32(first)
	var raised runs
	for _, r := range t.pending {
		raised.add(Slots{First: r.First, N: r.N, Attempt: first})
	}
	t.pending = raised
}

// extrasOf is what a slot has beyond its cell; the zero value if it has nothing.
func (t *slotTable) extrasOf(slot int) slotExtras {
	if x := t.extras[uint32(slot)]; x != nil {
		return *x
	}
	return slotExtras{}
}

// putExtras replaces what a slot has beyond its cell.
func (t *slotTable) putExtras(slot int, x slotExtras) {
	if x.Version == 1 {
		x.Version = 0
	}
	if x == (slotExtras{}) {
		delete(t.extras, uint32(slot))
		return
	}
	if t.extras == nil {
		t.extras = map[uint32]*slotExtras{}
	}
	t.extras[uint32(slot)] = &x
}

// version is the version of the attempt a slot is in, or waits for; 0 in jobs without versions.
func (t *slotTable) version(x slotExtras) int {
	if !t.versioned {
		return 0
	}
	return int(max(x.Version, 1))
}

func (t *slotTable) renewExtras(n int, x *slotExtras, version uint32, notBefore int64) {
	if t.version(*x) != int(version) {
		x.History = taskstate.History{}
	}
	x.Version, x.NotBefore = version, notBefore
	t.putExtras(n, *x)
}

// openOf yields the open slots of any incarnation of a peer, ascending. The cell may be changed
// meanwhile.
func (t *slotTable) openOf(peer taskstate.PeerID) iter.Seq2[int, *cell] {
	return func(yield func(int, *cell) bool) {
		has := false
		for o := range t.open {
			has = has || t.owners.list[o].Peer == peer
		}
		if !has {
			return
		}
		for n, c := range t.opened() {
			if t.owners.list[c.owner].Peer == peer && !yield(n, c) {
				return
			}
		}
	}
}

func (c *Counts) count(st taskstate.State, n int) {
	switch st {
	case taskstate.Complete:
		c.Complete += n
	case taskstate.Failed:
		c.Failed += n
	case taskstate.Rejected:
		c.Rejected += n
	case taskstate.Shutdown:
		c.Shutdown += n
	default:
		c.Orphaned += n
	}
}

// Counts says how many slots of a job are where. They add up to the job's Slots.
type Counts struct {
	Pending  int // nobody has it
	Open     int // assigned, no end decided
	Complete int
	Failed   int
	Rejected int
	Shutdown int
	Orphaned int
	Retired  int // not wanted any more, and not open; however they ended
}

// slotExtras is what only few slots have: those of lasting jobs, and those that leave, are retired
// or restart. It is in snapshots as it is here.
type slotExtras struct {
	Version   uint32            `cbor:"2,keyasint,omitempty"` // of the attempt it is in or waits for; 0 is the first one
	Next      uint32            `cbor:"3,keyasint,omitempty"` // leaving: version of the attempt that follows
	Leaving   bool              `cbor:"4,keyasint,omitempty"`
	Retired   bool              `cbor:"5,keyasint,omitempty"`
	Reason    taskstate.Reason  `cbor:"6,keyasint,omitempty"` // why it leaves or is retired
	NotBefore int64             `cbor:"7,keyasint,omitempty"` // pending: does not start before this stamp
	At        int64             `cbor:"8,keyasint,omitempty"` // retired while it waited: when
	Pin       taskstate.PeerID  `cbor:"9,keyasint,omitempty"`
	History   taskstate.History `cbor:"10,keyasint,omitzero"` // of its restarts, until it has ended for good
}

// seq32 is a status's number as a cell keeps it; no honest worker gets near the end.
func seq32(st *taskstate.Status) uint32 { return uint32(min(st.Seq, math.MaxUint32)) }

func isEnd(st taskstate.State) bool { return st.Final() && st.Valid() }

// attemptGap is how far the numbers of attempts jump when a ledger is recovered, or a job that was
// set aside is submitted again: more than the attempts of one slot that can have been made in
// decisions that were lost. No number is then given twice, so that a task of the lost part that
// still runs somewhere, or its end, is never taken for another one of the same slot.
const attemptGap = 1000

// maxFirst bounds Submit.First: a thousand jumps, and far from where numbers end.
const maxFirst = 1000*attemptGap + 1
