package ledger

import (
	"encoding/binary"
	"errors"
	"math"
)

// cellPacker writes a job's cells as varints, ascending: how many untouched slots were skipped, the
// kind of end, the attempt; for an assigned one its owner and what index and stamp differ by from
// the cell before; for a settled one its number, its time counted from the stamp, and how long it
// ran and had waited. Owners and kinds of ends are numbered as they come. About eleven bytes per
// slot.
type cellPacker struct {
	job   *JobRecord
	names *owners
	forms endKinds
	buf   []byte
	prev  cell
}

func (p *cellPacker) pack() []byte {
	skipped := 0
	for k := range p.job.slots.chunks {
		cells := p.job.slots.chunks[k].cells
		if cells == nil {
			skipped += min(chunkSize, p.job.slots.count-k*chunkSize)
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
		f = p.forms.id(p.job.kinds.list[f-kindFirst])
	}
	p.buf = binary.AppendUvarint(p.buf, uint64(skipped))
	p.buf = binary.AppendUvarint(p.buf, uint64(f))
	p.buf = binary.AppendUvarint(p.buf, uint64(c.attempt))
	if f == kindPending {
		return
	}
	o := p.job.owners.list[c.owner]
	p.buf = binary.AppendUvarint(p.buf, uint64(p.names.id(o.Peer, o.Incarnation)))
	p.buf = binary.AppendVarint(p.buf, int64(c.index-p.prev.index))
	p.buf = binary.AppendVarint(p.buf, c.assigned-p.prev.assigned)
	p.prev = *c
	if f >= kindFirst {
		p.buf = binary.AppendUvarint(p.buf, uint64(c.seq))
		p.buf = binary.AppendVarint(p.buf, c.end-c.assigned)
		p.buf = binary.AppendUvarint(p.buf, uint64(c.took))
		p.buf = binary.AppendUvarint(p.buf, uint64(c.waited))
	}
}

var errCells = errors.New("its slots are garbled")

// cellReader reads varints and remembers whether one was bad.
type cellReader struct {
	buf   []byte
	timed bool // ends say how long it took: they do from version 5 on
	bad   bool
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
func (j *JobRecord) unpack(packed []byte, version int) error {
	r := &cellReader{buf: packed, timed: version >= 5}
	prev, next := cell{}, 1 // next is the first slot not accounted for
	for len(r.buf) > 0 {
		skipped := int(r.uint(uint64(j.slots.count)))
		c := j.readCell(r, &prev)
		n := next + skipped
		if r.bad || n > j.slots.count {
			return errCells
		}
		j.wait(Slots{First: next, N: skipped, Attempt: j.attempt(cell{})})
		j.restoreCell(n, c)
		next = n + 1
	}
	if r.bad {
		return errCells
	}
	j.wait(Slots{First: next, N: j.slots.count + 1 - next, Attempt: j.attempt(cell{})})
	return nil
}

func (j *JobRecord) readCell(r *cellReader, prev *cell) cell {
	c := cell{kind: uint32(r.uint(uint64(kindFirst) + uint64(len(j.kinds.list)) - 1)), attempt: uint32(r.uint(math.MaxUint32))}
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
		if r.timed {
			c.took, c.waited = uint32(r.uint(math.MaxUint32)), uint32(r.uint(math.MaxUint32))
		}
	}
	r.bad = r.bad || int(c.owner) >= len(j.owners.list)
	return c
}

func (j *JobRecord) restoreCell(n int, c cell) {
	p, ch := j.slots.at(n)
	*p = c
	switch {
	case c.kind == kindPending:
		j.wait(Slots{First: n, N: 1, Attempt: j.attempt(c)})
	case c.kind == kindOpen:
		ch.open++
		j.counts.Open++
		j.open[c.owner]++
	case j.extrasOf(n).retired:
		j.counts.Retired++
	default:
		j.counts.count(j.kinds.list[c.kind-kindFirst].State, 1)
	}
}

// wait adds a run of slots nobody has; retired ones are over, and so are all in a cancelled job.
func (j *JobRecord) wait(x Slots) {
	if x.N <= 0 {
		return
	}
	j.split(x, func(run Slots, retired bool) {
		switch {
		case retired:
			j.counts.Retired += run.N
		case j.cancelled:
			j.counts.Shutdown += run.N
		default:
			j.pending.add(run)
			j.counts.Pending += run.N
		}
	})
}
