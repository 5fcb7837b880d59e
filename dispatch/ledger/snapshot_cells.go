package ledger

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
)

// cellPacker writes a job's cells as varints, ascending: how many untouched slots were skipped, the
// kind of end, the attempt; for an assigned one its owner and what index and stamp differ by from
// the cell before; for a settled one its number, its time counted from the stamp, and how long it
// ran and had waited. Owners and kinds of ends are numbered as they come. About eleven bytes per
// slot.
type cellPacker struct {
	slots *slotTable
	names *owners
	kinds endKinds
	buf   []byte
	prev  cell
}

func (p *cellPacker) pack() []byte {
	skipped := 0
	for k := range p.slots.chunks {
		cells := p.slots.chunks[k].cells
		if cells == nil {
			skipped += min(chunkSize, p.slots.count-k*chunkSize)
		}
		for i := range cells {
			if cells[i].kind == kindUntouched {
				skipped++
				continue
			}
			p.cell(skipped, &cells[i])
			skipped = 0
		}
	}
	return p.buf
}

func (p *cellPacker) cell(skipped int, c *cell) {
	f := c.kind
	if f >= kindFirst {
		f = p.kinds.id(p.slots.kinds.list[f-kindFirst])
	}
	p.buf = binary.AppendUvarint(p.buf, uint64(skipped))
	p.buf = binary.AppendUvarint(p.buf, uint64(f))
	p.buf = binary.AppendUvarint(p.buf, uint64(c.attempt))
	if f == kindPending {
		return
	}
	o := p.slots.owners.list[c.owner]
	p.buf = binary.AppendUvarint(p.buf, uint64(p.names.id(o.Peer, o.Incarnation)))
	p.buf = binary.AppendVarint(p.buf, int64(c.index-p.prev.index))
	p.buf = binary.AppendVarint(p.buf, c.assigned-p.prev.assigned)
	p.prev = *c
	if f >= kindFirst {
		p.buf = binary.AppendUvarint(p.buf, uint64(c.seq))
		p.buf = binary.AppendVarint(p.buf, c.end-c.assigned)
		p.buf = binary.AppendUvarint(p.buf, uint64(c.Took))
		p.buf = binary.AppendUvarint(p.buf, uint64(c.Waited))
	}
}

var errCells = errors.New("its slots are garbled")

// cellReader reads varints and remembers whether one was bad.
type cellReader struct {
	buf []byte
	bad bool
}

func (r *cellReader) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 || v > limit {
		r.bad, r.buf = true, nil
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *cellReader) int() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.bad, r.buf = true, nil
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// unpack fills cells, and from them everything that follows: counts, runs, what is open where.
func (t *slotTable) unpack(packed []byte, cancelled bool) error {
	r := &cellReader{buf: packed}
	prev, next := cell{}, 1 // next is the first slot not accounted for
	for len(r.buf) > 0 {
		skipped := int(r.uint(uint64(t.count)))
		c := t.readCell(r, &prev)
		n := next + skipped
		if r.bad || n > t.count {
			return errCells
		}
		t.wait(Slots{First: next, N: skipped, Attempt: t.attempt(cell{})}, cancelled)
		t.restoreCell(n, c, cancelled)
		next = n + 1
	}
	if r.bad {
		return errCells
	}
	t.wait(Slots{First: next, N: t.count + 1 - next, Attempt: t.attempt(cell{})}, cancelled)
	return nil
}

func (t *slotTable) readCell(r *cellReader, prev *cell) cell {
	c := cell{kind: uint32(r.uint(uint64(kindFirst) + uint64(len(t.kinds.list)) - 1)), attempt: uint32(r.uint(math.MaxUint32))}
	switch {
	case c.kind == kindUntouched, c.attempt < 1, c.kind == kindPending && c.attempt < 2:
		r.bad = true
		return c
	case c.kind == kindPending:
		return c
	}
	c.owner = uint32(r.uint(math.MaxUint32))
	c.index = prev.index + uint64(r.int())
	c.assigned = prev.assigned + r.int()
	*prev = c
	if c.kind >= kindFirst {
		c.seq = uint32(r.uint(math.MaxUint32))
		c.end = c.assigned + r.int()
		c.Took, c.Waited = uint32(r.uint(math.MaxUint32)), uint32(r.uint(math.MaxUint32))
	}
	r.bad = r.bad || int(c.owner) >= len(t.owners.list)
	return c
}

func (t *slotTable) restoreCell(n int, c cell, cancelled bool) {
	p, ch := t.at(n)
	*p = c
	switch {
	case c.kind == kindPending:
		t.wait(Slots{First: n, N: 1, Attempt: t.attempt(c)}, cancelled)
	case c.kind == kindOpen:
		ch.open++
		t.counts.Open++
		t.open[c.owner]++
	case t.extrasOf(n).Retired:
		t.counts.Retired++
	default:
		t.counts.count(t.kinds.list[c.kind-kindFirst].State, 1)
	}
}

// wait adds a run of slots nobody has; retired ones are over, and so are all in a cancelled job.
func (t *slotTable) wait(x Slots, cancelled bool) {
	if x.N <= 0 {
		return
	}
	t.split(x, func(run Slots, retired bool) {
		switch {
		case retired:
			t.counts.Retired += run.N
		case cancelled:
			t.counts.Shutdown += run.N
		default:
			t.pending.add(run)
			t.counts.Pending += run.N
		}
	})
}

// pastSnapshot is what a slot has left behind.
type pastSnapshot struct {
	Slot     uint32          `cbor:"1,keyasint"`
	Attempts []formerAttempt `cbor:"2,keyasint"` // the oldest first
}

func (h *pastAttempts) pack(names, owners *owners) (out []pastSnapshot) {
	for _, n := range slices.Sorted(maps.Keys(h.former)) {
		x := pastSnapshot{Slot: n, Attempts: slices.Clone(h.former[n])}
		for i := range x.Attempts {
			p := &x.Attempts[i]
			p.Owner = names.of(owners, p.Owner)
		}
		out = append(out, x)
	}
	return out
}

func (h *pastAttempts) packConflicts(names, owners *owners) []conflict {
	out := slices.Clone(h.conflicted)
	for i := range out {
		out[i].Owner = names.of(owners, out[i].Owner)
	}
	return out
}

// of renames an owner of another list.
func (o *owners) of(other *owners, id uint32) uint32 {
	x := other.list[id]
	return o.id(x.Peer, x.Incarnation)
}

var errPast = errors.New("its past is garbled")

func (h *pastAttempts) unpack(in []pastSnapshot, slots *slotTable) error {
	if len(in) > 0 {
		h.former = make(map[uint32][]formerAttempt, min(len(in), KeepPastSlots))
	}
	last := uint32(0)
	for _, x := range in {
		if x.Slot <= last || len(x.Attempts) < 1 || len(x.Attempts) > KeepPast {
			return errPast
		}
		last = x.Slot
		for _, p := range x.Attempts {
			if !slots.possible(last, p.Attempt, p.Owner) || p.Version != 0 && !slots.versioned ||
				p.Late != nil && !isEnd(p.Late.State) || p.End != nil && (!isEnd(p.End.Kind.State) || len(p.End.Kind.Message) > maxPastMessage) {
				return errPast
			}
		}
		if slots.get(int(last)).kind == kindUntouched { // it was never given to anybody
			return errPast
		}
		h.former[last] = x.Attempts
	}
	if len(in) > KeepPastSlots {
		return errPast
	}
	return nil
}

func (h *pastAttempts) unpackConflicts(in []conflict, slots *slotTable) error {
	if len(in) > KeepConflicts || len(in) > h.conflicts {
		return errPast
	}
	for _, c := range in {
		if !slots.possible(c.Slot, c.Attempt, c.Owner) || !isEnd(c.State) {
			return errPast
		}
	}
	h.conflicted = in
	return nil
}

// possible tells whether there can be such an attempt.
func (t *slotTable) possible(slot, attempt, owner uint32) bool {
	return slot >= 1 && int64(slot) <= int64(t.count) && attempt >= 1 && int(owner) < len(t.owners.list)
}
