package store

import (
	"github.com/coveyproject/covey/node/blob/piece"
)

// shelf decides what stays. It is a pure core: it knows what each blob takes, who counts on it and
// in which order the others were used; it touches no disk. Store's lock guards it.
//
// As long as more is here than the quota allows, nothing is loose.
type shelf struct {
	quota int64
	bytes int64 // what blobs take, and what was reserved
	loose int64 // what those take that may go
	blobs map[piece.Root]*blob
	pins  map[piece.Root]int // how many name a blob, be it here or not
	ring  blob               // what may go: ring.newer was used longest ago
}

// blob is what is known of one.
type blob struct {
	root   piece.Root
	cost   int64 // what it takes on the disk
	leases int

	older, newer *blob // in the ring, nil outside of it

	// What follows is Store's.
	size    int64    // of a whole one
	taken   int64    // of it, what the disk has: it may have holes
	whole   bool     // it has its name
	safe    bool     // and that name is synced
	part    *partial // nil if none of it is on the disk but what is whole
	touched int64    // when the disk was told that it is used, in Unix seconds
}

func newShelf(quota int64) *shelf {
	s := &shelf{quota: quota, blobs: map[piece.Root]*blob{}, pins: map[piece.Root]int{}}
	s.ring.older, s.ring.newer = &s.ring, &s.ring
	return s
}

// fit reserves n bytes and says which blobs go for them, which it has forgotten then. free is what
// the disk has left for the store; it may be negative. What is the owner's own may exceed the
// quota. If there is no room, nothing goes.
func (s *shelf) fit(n int64, own bool, free int64) (gone []*blob, err error) {
	over, short := s.bytes-s.quota+n, n-free // n is at most a blob's size: far from any limit
	if n > 0 {
		disk, quota := free+s.loose, s.quota-(s.bytes-s.loose)
		if own {
			quota = disk
		}
		if most := min(disk, quota); n > most {
			return nil, &NoRoom{Needed: n, Free: max(0, most), Disk: disk <= quota}
		}
	}
	for need := max(over, short); need > 0 && s.loose > 0; {
		b := s.ring.newer
		need -= b.cost
		s.forget(b)
		gone = append(gone, b)
	}
	s.bytes += n
	return gone, nil
}

// giveBack takes back what was reserved.
func (s *shelf) giveBack(n int64) { s.bytes -= n }

// add makes known a blob for which its cost was reserved. It is leased once.
func (s *shelf) add(root piece.Root, cost int64) *blob {
	b := &blob{root: root, cost: cost, leases: 1}
	s.blobs[root] = b
	return b
}

// lease keeps a blob until it is released as often.
func (s *shelf) lease(b *blob) {
	b.leases++
	s.settle(b)
}

// release gives up a lease. The blob is the one that was used last.
func (s *shelf) release(b *blob) {
	b.leases--
	s.settle(b)
}

// pin keeps a blob, here or not, until it is unpinned as often.
func (s *shelf) pin(root piece.Root) {
	s.pins[root]++
	if b := s.blobs[root]; b != nil {
		s.settle(b)
	}
}

func (s *shelf) unpin(root piece.Root) {
	if s.pins[root]--; s.pins[root] == 0 {
		delete(s.pins, root)
	}
	if b := s.blobs[root]; b != nil {
		s.settle(b)
	}
}

// resize says what a blob takes now; what it takes more was reserved.
func (s *shelf) resize(b *blob, cost int64) {
	if b.newer != nil {
		s.loose += cost - b.cost
	}
	if cost < b.cost {
		s.bytes -= b.cost - cost
	}
	b.cost = cost
}

// forget takes a blob off the shelf.
func (s *shelf) forget(b *blob) {
	s.unlink(b)
	s.bytes -= b.cost
	delete(s.blobs, b.root)
}

// restore puts one back that could not be removed.
func (s *shelf) restore(b *blob) {
	s.bytes += b.cost
	s.blobs[b.root] = b
	s.settle(b)
}

// settle puts a blob among those that may go, as the one used last, or takes it from them.
func (s *shelf) settle(b *blob) {
	switch held := b.leases > 0 || s.pins[b.root] > 0; {
	case held:
		s.unlink(b)
	case b.newer == nil:
		last := s.ring.older
		last.newer, b.older, b.newer, s.ring.older = b, last, &s.ring, b
		s.loose += b.cost
	}
}

func (s *shelf) unlink(b *blob) {
	if b.newer == nil {
		return
	}
	b.older.newer, b.newer.older = b.newer, b.older
	b.older, b.newer = nil, nil
	s.loose -= b.cost
}
