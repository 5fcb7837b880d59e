package quorum

import (
	"cmp"
	"slices"
	"sync"
)

// item is one entry on its way to a follower, or a part of one.
type item struct {
	Index uint64 `cbor:"1,keyasint"`
	Data  []byte `cbor:"2,keyasint"`
	More  bool   `cbor:"3,keyasint,omitempty"` // the next item goes on with the same entry
}

// ring holds the most recent entries, encoded, so that followers can be served and resumed without
// a snapshot. It is bounded by bytes: what falls out at the old end raises the floor, and whoever
// asks from below it is too late.
type ring struct {
	mu    sync.Mutex
	limit int
	items []item
	bytes int
	floor uint64 // every entry above it, up to the replica's index, is in items
	last  uint64
}

func newRing(limit int) *ring { return &ring{limit: limit} }

// add appends an entry. data must not change any more.
func (r *ring) add(index uint64, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = append(r.items, item{Index: index, Data: data})
	r.bytes += len(data)
	r.last = index
	drop := 0
	for r.bytes > r.limit && drop < len(r.items)-1 {
		r.bytes -= len(r.items[drop].Data)
		r.floor = r.items[drop].Index
		r.items[drop] = item{}
		drop++
	}
	r.items = r.items[drop:]
}

// bound sets the limit in bytes from now on.
func (r *ring) bound(limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
}

// reset empties the ring: the replica was replaced, and stands at index.
func (r *ring) reset(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items, r.bytes, r.floor, r.last = nil, 0, index, index
}

// after returns entries above index, at most about limit bytes of them. ok is false if some are no
// longer there.
func (r *ring) after(index uint64, limit int) (items []item, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if index < r.floor {
		return nil, false
	}
	lo, _ := slices.BinarySearchFunc(r.items, index+1, func(it item, i uint64) int { return cmp.Compare(it.Index, i) })
	end, bytes := lo, 0
	for end < len(r.items) && (end == lo || bytes+len(r.items[end].Data) <= limit) {
		bytes += len(r.items[end].Data)
		end++
	}
	return slices.Clone(r.items[lo:end]), true
}

// end is the index of the newest entry.
func (r *ring) end() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
