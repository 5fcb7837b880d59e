package admission

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// MaxRoster caps how many entries a roster holds, tombstones included.
const MaxRoster = 16384

// Errors of Roster.
var (
	ErrUntrusted   = errors.New("no chain of signatures leads back to a voter known here")
	ErrOtherGroup  = errors.New("roster entry of another cluster")
	ErrRosterFull  = errors.New("the roster is full")
	ErrNotAdmitted = errors.New("not admitted")
)

// Roster is who is admitted, as far as this peer knows: a copy of what the ledger says, plus
// newcomers that proved themselves faster than the ledger's news. Reading never waits for a writer
// or the disk; it is safe for concurrent use.
type Roster struct {
	path   string
	verify VerifyFunc
	seats  *SeatChain  // whose signatures count; nil: nobody's
	level  func() bool // see Believe; nil: never
	past   func() (generation, index uint64)
	mu     sync.Mutex // serialises writers
	now    atomic.Pointer[roll]

	disk sync.Mutex // held over a write to disk, taken after mu
	kept *roll      // what the file has
}

// roll is one immutable version of the roster.
type roll struct {
	cluster string
	entries map[string]Entry
	roots   []string // see Pin
}

// Believe says whose signatures count in what others show: of those that hold a seat. While level,
// which may be nil, tells that this peer's own replica of the ledger is current, nobody else's;
// otherwise also of those that held one, as far as is remembered here: what they admitted may not
// have come through yet. A removal counts then if its signer held a seat at the index it names, and
// if that is not long before past, up to which this peer has applied the ledger itself; nil: it has
// none. It is called before the roster is used.
func (r *Roster) Believe(seats *SeatChain, level func() bool, past func() (generation, index uint64)) {
	r.seats, r.level, r.past = seats, level, past
}

// Seats is who holds a seat, as this roster believes; nil if nobody was named.
func (r *Roster) Seats() *SeatChain { return r.seats }

// signs tells whether an entry's signature counts. Of a signer that was removed it is what it
// signed before, as long as the own replica of the ledger cannot say better: the peers it admitted
// may be all there are by now.
func (r *Roster) signs(l *roll, e Entry) bool {
	by := l.entries[e.By]
	switch {
	case r.seats == nil:
		return false
	case r.level != nil && r.level():
		return !by.Removed && r.seats.Seated(e.By)
	}
	switch {
	case by.Removed && e.At >= by.At:
		return false
	case e.Removed:
		return r.seats.SeatedAt(e.By, e.Generation, e.Index) && !r.belied(e)
	}
	return r.seats.WasSeated(e.By)
}

// removedWithin is how many entries may be decided between the one at which a removal is signed and
// the removal itself.
const removedWithin = 1024

// belied tells whether a removal would have to be in this peer's own replica of the ledger, which
// does not have it: it was never decided.
func (r *Roster) belied(e Entry) bool {
	if r.past == nil {
		return false
	}
	generation, index := r.past()
	return e.Generation == generation && e.Index+removedWithin < index
}

// Admitted tells whether peer is in and has not been removed. The gate asks this for every stream.
func (r *Roster) Admitted(peer string) bool {
	e, ok := r.now.Load().entries[peer]
	return ok && !e.Removed
}

// Get returns the entry of a peer, also when it is a tombstone.
func (r *Roster) Get(peer string) (Entry, bool) {
	e, ok := r.now.Load().entries[peer]
	return e, ok
}

// Cluster is the id of the cluster the roster belongs to, "" while it is empty.
func (r *Roster) Cluster() string { return r.now.Load().cluster }

// All lists every entry, tombstones included, oldest first.
func (r *Roster) All() []Entry {
	all := slices.Collect(maps.Values(r.now.Load().entries))
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Peer, b.Peer)) })
	return all
}

// Trust stores entries that are decided already: those of our own ledger replica, in its order.
// They replace what is held, even what looks newer, for the ledger has the last word. Entries of
// another cluster are refused (see Replace). They are on disk after the next Flush.
func (r *Roster) Trust(entries ...Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.now.Load().clone()
	for _, e := range entries {
		if err := next.put(e); err != nil {
			return err
		}
	}
	r.learn(next)
	return nil
}

// Replace forgets the roster and begins again with these entries: a peer that moves to another
// cluster, or the first contact.
func (r *Roster) Replace(entries ...Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := &roll{entries: map[string]Entry{}}
	for _, e := range entries {
		if err := next.put(e); err != nil {
			return err
		}
	}
	return r.store(next)
}

// Adopt takes the roster of a join's answer, on the word of the peer that gave it: the joiner named
// that peer and has no other root of trust. Every entry must still carry its signature. What is
// held of another cluster is forgotten, of the same it stays unless the answer is newer.
func (r *Roster) Adopt(a JoinAnswer) error {
	next := &roll{entries: map[string]Entry{}}
	for _, e := range append(slices.Clone(a.Roster), a.Entry) {
		if err := e.Verify(r.verify); err != nil {
			return fmt.Errorf("the answer to our joining is unsound: %w", err)
		}
		if err := next.put(e); err != nil {
			return fmt.Errorf("the answer to our joining is unsound: %w", err)
		}
	}
	if r.seats != nil {
		if err := r.seats.Adopt(next.cluster, a.Seats, a.Voters); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if held := r.now.Load(); held.cluster == next.cluster { // what we knew of this cluster stays, unless the answer knows better
		next.roots = held.roots
		for peer, e := range held.entries {
			n, ok := next.entries[peer]
			if ok && n.At < e.At || !ok && len(next.entries) < MaxRoster { // a roster above its cap could not be read back
				next.entries[peer] = e
			}
		}
	}
	return r.store(next)
}

// Offer takes entries from outside, in any order: each must be signed by who holds a seat in the
// ledger (see Believe). Entries not newer than what is held are passed over. What proves sound is
// stored even when other entries do not; the error then wraps ErrUntrusted, ErrBadEntry or
// ErrOtherGroup. A voter that was removed proves nothing any more.
func (r *Roster) Offer(entries ...Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.now.Load()
	if held.cluster == "" {
		return fmt.Errorf("%w: this peer has no roster yet", ErrUntrusted)
	}
	todo, first := r.sound(held, entries)
	next, changed := held.clone(), false
	for len(todo) > 0 {
		before := len(todo)
		todo = slices.DeleteFunc(todo, func(e Entry) bool {
			if !r.signs(next, e) {
				return false
			}
			if h, ok := next.entries[e.Peer]; !ok || e.At > h.At {
				err := next.put(e)
				first, changed = cmp.Or(first, err), changed || err == nil
			}
			return true
		})
		if len(todo) == before {
			first = cmp.Or(first, fmt.Errorf("entry of %s, signed by %s: %w", todo[0].Peer, todo[0].By, ErrUntrusted))
			break
		}
	}
	if !changed {
		return first
	}
	r.learn(next)
	return first
}

// Pin remembers whose word this peer believes of who else may say something: the admins that it
// knew when it joined. They are on disk when this returns.
func (r *Roster) Pin(roots ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.now.Load().clone()
	next.roots = slices.Compact(slices.Sorted(slices.Values(roots)))
	if err := r.save(next); err != nil {
		return err
	}
	r.now.Store(next)
	return nil
}

// Roots is what was pinned.
func (r *Roster) Roots() []string { return r.now.Load().roots }

// Drop forgets entries that were shown to this peer and are not in the ledger.
func (r *Roster) Drop(peers ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.now.Load().clone()
	for _, p := range peers {
		delete(next.entries, p)
	}
	r.learn(next)
}

// sound picks the entries worth proving: new, of this cluster, and truly signed. Tombstones come
// first, and of two that contradict each other in the same millisecond always the same one, so that
// the outcome of an offer does not depend on its order.
func (r *Roster) sound(held *roll, entries []Entry) (good []Entry, first error) {
	for _, e := range entries {
		if h, ok := held.entries[e.Peer]; ok && e.At <= h.At {
			continue
		}
		if e.Cluster != held.cluster {
			first = cmp.Or(first, fmt.Errorf("%w: %s is of %s, this is %s", ErrOtherGroup, e.Peer, e.Cluster, held.cluster))
			continue
		}
		if err := cmp.Or(e.Verify(r.verify), r.dated(e)); err != nil {
			first = cmp.Or(first, err)
			continue
		}
		good = append(good, e)
	}
	slices.SortStableFunc(good, func(a, b Entry) int {
		return cmp.Or(boolCompare(b.Removed, a.Removed), cmp.Compare(a.At, b.At), cmp.Compare(a.Peer, b.Peer), slices.Compare(a.Sig, b.Sig))
	})
	return good, first
}

// dated tells whether a removal names the decision it is of, as one that is shown must.
func (r *Roster) dated(e Entry) error {
	switch {
	case !e.Removed:
		return nil
	case e.Index == 0 || e.Generation == 0 || e.Term == 0:
		return fmt.Errorf("%w: the removal of %s names no decision of the ledger", ErrBadEntry, e.Peer)
	case r.seats != nil && r.seats.Beyond(e.Generation, e.Index):
		return fmt.Errorf("%w: the removal of %s is of generation %d, index %d, which no honest peer knows", ErrBadEntry, e.Peer, e.Generation, e.Index)
	}
	return nil
}

// Chain returns peer's entry and those of the voters that vouch for it, one after another up to a
// founder: what a stranger shows. At most limit entries.
func (r *Roster) Chain(peer string, limit int) []Entry {
	var chain []Entry
	for held := r.now.Load(); len(chain) < limit; {
		e, ok := held.entries[peer]
		if !ok || slices.ContainsFunc(chain, func(x Entry) bool { return x.Peer == peer }) {
			break
		}
		chain, peer = append(chain, e), e.By
	}
	return chain
}

// store keeps what nobody else could tell this peer again: it is on disk before it counts.
func (r *Roster) store(next *roll) error {
	if maps.EqualFunc(next.entries, r.now.Load().entries, Entry.Same) {
		return r.Flush()
	}
	if err := r.save(next); err != nil {
		return err
	}
	r.now.Store(next)
	return nil
}

// learn takes what the ledger or another peer would tell again. Each newcomer is such news to
// every peer: a write to disk for each of them is what a large cluster would drown in.
func (r *Roster) learn(next *roll) {
	if !maps.EqualFunc(next.entries, r.now.Load().entries, Entry.Same) {
		r.now.Store(next)
	}
}

// Flush writes what was learnt since the last time. Trust, Offer and Drop do not wait for the disk;
// who uses them calls it soon, and in the end.
func (r *Roster) Flush() error { return r.save(r.now.Load()) }

func (r *Roster) save(l *roll) error {
	r.disk.Lock()
	defer r.disk.Unlock()
	if l == r.kept {
		return nil
	}
	if err := saveRoll(r.path, l); err != nil {
		return err
	}
	r.kept = l
	return nil
}

func (l *roll) clone() *roll {
	return &roll{cluster: l.cluster, entries: maps.Clone(l.entries), roots: l.roots}
}

func (l *roll) put(e Entry) error {
	if err := e.check(); err != nil {
		return err
	}
	l.cluster = cmp.Or(l.cluster, e.Cluster)
	if e.Cluster != l.cluster {
		return fmt.Errorf("%w: %s is of %s, this is %s", ErrOtherGroup, e.Peer, e.Cluster, l.cluster)
	}
	if _, ok := l.entries[e.Peer]; !ok && len(l.entries) >= MaxRoster {
		return fmt.Errorf("%w: %d entries", ErrRosterFull, MaxRoster)
	}
	l.entries[e.Peer] = e
	return nil
}

// Same tells whether two entries are the same one.
func (e Entry) Same(o Entry) bool {
	return e.Cluster == o.Cluster && e.Peer == o.Peer && e.Name == o.Name && slices.Equal(e.Roles, o.Roles) && e.Ticket == o.Ticket &&
		e.At == o.At && e.By == o.By && e.Removed == o.Removed && slices.Equal(e.Sig, o.Sig) &&
		e.Index == o.Index && e.Generation == o.Generation && e.Term == o.Term
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
