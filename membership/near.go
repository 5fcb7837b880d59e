package membership

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	allNear = 16 // in a cluster of up to so many members everybody looks after everybody
	beside  = 2  // in a larger one after so many on either side in the order of ids,
	across  = 8  // and about so many of the others
)

// neighbourhood is whom a peer looks after: whom it probes, tells news and exchanges everything
// with. Each takes a connection, and if everybody looked after everybody 120 members would have
// 7140; when all start at once they do little else than to make those. So in a large cluster each
// has some that it chooses by its id and theirs: both sides choose the same, and who comes later
// changes little of it. Those beside each other make one ring of all members; those across are as
// good as drawn at random, so that news is everywhere after a few steps.
type neighbourhood struct {
	self string
	ids  []string // of members that are not dead, and self; sorted
	near []string // of ids
	with []string // always near: who decides together with this peer
}

func newNeighbourhood(self string, others, with []string) *neighbourhood {
	n := &neighbourhood{self: self, with: with, ids: append(slices.Clone(others), self)}
	slices.Sort(n.ids)
	for _, id := range n.ids {
		if n.has(id) {
			n.near = append(n.near, id)
		}
	}
	return n
}

// has tells whether a peer is near: it need not be a member yet.
func (n *neighbourhood) has(peer string) bool {
	if peer == n.self {
		return false
	}
	if len(n.ids) <= allNear || slices.Contains(n.with, peer) || distance(n.self, peer) < across*(1<<32/uint64(len(n.ids))) {
		return true
	}
	own, _ := slices.BinarySearch(n.ids, n.self)
	its, _ := slices.BinarySearch(n.ids, peer)
	apart := max(own, its) - min(own, its)
	return min(apart, len(n.ids)-apart) <= beside
}

// distance of two peers is a number of 32 bits that is the same for both.
func distance(a, b string) uint64 {
	h := sha256.Sum256([]byte(min(a, b) + max(a, b)))
	return uint64(binary.BigEndian.Uint32(h[:]))
}

// neighbours knows the present neighbourhood, and what memberlist, which takes members at random,
// has to do with each. Its lock is taken with that of Membership held, never the other way round.
type neighbours struct {
	m *Membership

	mu      sync.Mutex
	hood    *neighbourhood
	next    int                // of those near, the one that was looked after last
	tending int                // of those near that are looked after now
	silent  map[string]silence // those near that were silent when they were looked after last

	tendedFar map[string]bool // those far away that are looked after now; see tendFar
}

func newNeighbours(m *Membership) *neighbours {
	return &neighbours{m: m, hood: newNeighbourhood(m.self, nil, nil), silent: map[string]silence{}, tendedFar: map[string]bool{}}
}

// update takes over who is not dead.
func (n *neighbours) update(t *table) {
	var others []string
	for id, e := range t.entries {
		if e.gossip == Alive || e.gossip == Suspect {
			others = append(others, id)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hood = newNeighbourhood(t.self, others, n.hood.with)
	maps.DeleteFunc(n.silent, func(id string, _ silence) bool { return !n.hood.has(id) })
}

// decide takes over who decides. If this peer does, the others are near: what they wait for each
// other grows with the round trips that are measured here.
func (n *neighbours) decide(all []string) {
	if !slices.Contains(all, n.m.self) {
		all = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hood; !slices.Equal(h.with, all) {
		n.hood = newNeighbourhood(h.self, slices.DeleteFunc(slices.Clone(h.ids), func(id string) bool { return id == h.self }), all)
	}
}

func (n *neighbours) now() *neighbourhood {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hood
}

// has tells whether this peer looks after another.
func (n *neighbours) has(peer string) bool { return n.now().has(peer) }

// spares tells whether this peer leaves another to those near it for now, because it gets too
// little time itself. Then most of those that seem to be silent are only late, here and elsewhere,
// and if everybody dialled each of them all would be later still.
func (n *neighbours) spares(peer string) bool { return n.m.cfg.strained() && !n.has(peer) }

// all tells whether everybody is near.
func (n *neighbours) all() bool { return len(n.now().ids) <= allNear }

const (
	slowest = 6 // in a cluster of over 80 members news is told so many times less often than in a small one,
	weary   = 3 // and so many times less again by a peer that gets too little time
)

// slower is how many times longer a member waits between two rounds of news than in a small
// cluster. A newcomer is news to everybody: as a whole, members would be the busier with each one
// the more there are. In a longer round more news goes along.
func (n *neighbours) slower() time.Duration {
	size := len(n.now().ids)
	times := time.Duration(min(1+size/allNear, slowest))
	switch {
	case size <= allNear:
		return 1
	case n.m.cfg.strained():
		return times * weary
	}
	return times
}

// Near lists the members that are alive and that this peer looks after: all in a small cluster. Who
// has to do with anybody at all, whoever it is, takes one of these.
func (m *Membership) Near() (ids []string) {
	for _, id := range m.near.now().near {
		if m.known(id).verdict == Alive {
			ids = append(ids, id)
		}
	}
	return ids
}

// instead is somebody near; "" if nobody is.
func (n *neighbours) instead() string {
	near := n.now().near
	if len(near) == 0 {
		return ""
	}
	return near[rand.N(len(near))]
}
