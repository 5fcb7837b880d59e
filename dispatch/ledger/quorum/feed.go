package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// ring holds the most recent entries, encoded, so that followers can be served and resumed without
// a snapshot. It is bounded by bytes: what falls out at the old end raises the floor, and a
// follower that asks from below it is too late.
type ring struct {
	mu    sync.Mutex
	limit int
	items []item
	bytes int
	floor uint64 // every entry above it, up to the replica's index, is in items
	last  uint64
}

func newRing(limit int) *ring { return &ring{limit: limit} }

// add appends an entry, with the form of it that everybody may have. Neither must change any more.
func (r *ring) add(index uint64, data []byte, public ledger.Public) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = append(r.items, item{Index: index, Data: data, public: public})
	r.bytes += r.items[len(r.items)-1].size()
	r.last = index
	drop := 0
	for r.bytes > r.limit && drop < len(r.items)-1 {
		r.bytes -= r.items[drop].size()
		r.floor = r.items[drop].Index
		r.items[drop] = item{}
		drop++
	}
	r.items = r.items[drop:]
}

// size is about how much memory an item takes.
func (it *item) size() int { return len(it.Data) + len(it.public.Data) }

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

// feed is what goes into this peer's replica, and the newest of it, encoded, for followers. Raft
// and the stream that is followed put in.
type feed struct {
	rep      *ledger.Replica
	ring     *ring
	compared *comparison
	wakes    *wakes
	log      *slog.Logger

	unread *unread

	mu sync.Mutex // one entry or snapshot at a time
}

// apply feeds one committed entry into replica and ring, from whichever source it comes first: read
// is ledger.ReadEntry for the log, and ledger.ReadShown for a voter that sends it.
func (f *feed) apply(index uint64, data []byte, read func(uint64, []byte) (ledger.Entry, error)) ([]ledger.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if index <= f.rep.Applied() {
		return nil, nil
	}
	if f.unread.stops(index) {
		return nil, f.unread.err()
	}
	e, err := read(index, data)
	if errors.Is(err, wire.ErrUnknown) {
		return nil, f.stop(index, err)
	}
	if errors.Is(err, errBare) {
		return nil, err
	}
	if err != nil { // not applied, so that the chain differs: a voter is seated anew (see comparison)
		f.log.Error("an entry of the ledger cannot be read: this peer's disk or memory is bad", "index", index, "err", err)
		return nil, fmt.Errorf("ledger entry %d cannot be read: %w", index, err)
	}
	f.unread.clear()
	results := f.rep.Apply(e)
	var public ledger.Public
	f.rep.Read(func(s *ledger.State) { public, err = ledger.NewestPublic(s), beyond(s) })
	f.ring.add(index, e.Encoded(), public)
	if err != nil {
		_ = f.stop(index, err) // for those that follow
	}
	return results, nil
}

// stop has nothing applied from an entry on, and those look who wait for what is decided.
func (f *feed) stop(index uint64, why error) error {
	err := f.unread.stop(index, why, f.log)
	f.wakes.changed.fire()
	return err
}

// reset replaces the replica by a snapshot, unless it is further already, or as far and lacks no
// more.
func (f *feed) reset(st *ledger.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var g, have uint64
	better := f.compared.wrong()
	f.rep.Read(func(s *ledger.State) {
		g, have = s.Generation(), s.Index()
		better = better || len(ledger.Lacking(st)) < len(ledger.Lacking(s))
	})
	if st.Generation() < g || st.Generation() == g && (st.Index() < have || st.Index() == have && !better) {
		return
	}
	f.rep.Reset(st)
	f.unread.clear()
	f.compared.set(0, "")
	f.ring.reset(st.Index())
	f.wakes.moved.fire()
}

// strip has the replica know what only those jobs run that a peer has to do with. It tells whether
// it knew more.
func (f *feed) strip(peer taskstate.PeerID) (knew bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b []byte
	f.rep.Read(func(s *ledger.State) {
		if knew = ledger.Beyond(s, peer); knew {
			b, err = ledger.EncodeFor(s, peer)
		}
	})
	if !knew || err != nil {
		return false, err
	}
	st, err := ledger.DecodeState(b)
	if err != nil {
		return false, err
	}
	f.rep.Reset(st)
	f.ring.reset(st.Index())
	return true, nil
}

// ErrNewer is what a peer comes to whose ledger holds what a newer program wrote.
var ErrNewer = errors.New("the ledger holds what only a newer version of peer can read: install the newest version of the cluster here, and start this peer again")

// readState reads a snapshot. One of a cluster that speaks more than this program reads is whole,
// and not for this program.
func readState(b []byte) (*ledger.State, error) {
	st, err := ledger.DecodeState(b)
	if err != nil {
		return nil, err
	}
	return st, beyond(st)
}

// beyond tells why this program can go no further than a state: nil, or an error that is
// wire.ErrUnknown. Nothing that follows needs to be in the newer dialect, but may be.
func beyond(st *ledger.State) error {
	if d := st.Dialects().Spoken(); d > wire.Dialect {
		return fmt.Errorf("the cluster speaks dialect %d, and this version of peer reads %d: %w", d, wire.Dialect, wire.ErrUnknown)
	}
	return nil
}

func newerFolder(err error) error { return fmt.Errorf("%w (%w)", ErrNewer, err) }

// unread is the entry of a newer program that this one cannot read, if it met one. A peer that
// passed it over would make other things of those that follow than everybody else. So the replica
// stays as it was before it; what raft has agreed on stays in the log, and acknowledging more of it
// needs no reading. This peer does not coordinate and makes no snapshot. It ends with a program
// that reads the entry, which begins where this one stopped, or with a snapshot from beyond it that
// can be read.
type unread struct {
	mu    sync.Mutex
	index uint64 // 0: none
	why   error
}

// stops tells whether an entry is behind the one that could not be read. That one is tried again.
func (u *unread) stops(index uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.index != 0 && index > u.index
}

// stop remembers the entry, and says so once.
func (u *unread) stop(index uint64, why error, log *slog.Logger) error {
	u.mu.Lock()
	news := u.index != index
	u.index, u.why = index, why
	u.mu.Unlock()
	if news {
		log.Error("an entry of the ledger cannot be read: nothing is applied from here on", "index", index, "why", u.err())
	}
	return u.err()
}

func (u *unread) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.index, u.why = 0, nil
}

// err is why nothing is applied; nil: all is.
func (u *unread) err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.index == 0 {
		return nil
	}
	return fmt.Errorf("ledger entry %d: %w (%w)", u.index, ErrNewer, u.why)
}
