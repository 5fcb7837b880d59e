package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"reflect"
	"slices"

	"covey/p2p/wire"
)

// chain is a rolling checksum over all that was applied since an entry: the bytes of each and what
// it came to. A peer that applied the same entries since then has the same; whose disk or memory
// changed something has another one from the next entry on. It begins with the first Lead entry
// that says so: entries of version 0.1 never do, so that it begins at the same entry for everybody,
// wherever in the log of before a replica began.
type chain struct {
	from uint64 // the entry it begins with; 0: it has not begun
	sum  [sha256.Size]byte
}

// extend adds an entry that was just applied, what came of it, and how much there is of what the
// state holds.
func (c *chain) extend(e *Entry, results []Result, sizes ...uint64) {
	if c.from == 0 && !slices.ContainsFunc(e.Commands, func(c Command) bool { return c.Lead != nil && c.Lead.Chain }) {
		return
	}
	if c.from == 0 {
		c.from = e.Index
	}
	h := sha256.New()
	h.Write(c.sum[:])
	number(h, e.Index, uint64(len(e.raw)))
	h.Write(e.raw)
	for i, r := range results {
		r.Now, r.Member = nil, nil
		if reflect.ValueOf(&r).Elem().IsZero() {
			continue
		}
		b, err := wire.Marshal(r)
		if err != nil {
			b = []byte(err.Error())
		}
		number(h, uint64(i), uint64(len(b)))
		h.Write(b)
	}
	number(h, sizes...)
	h.Sum(c.sum[:0])
}

func number(h hash.Hash, ns ...uint64) {
	var b [8]byte
	for _, n := range ns {
		binary.BigEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
}
