package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger"
	"covey/p2p/wire"
)

// fsm is raft's view of the replica. Raft calls it from one goroutine.
type fsm struct {
	feed      *feed
	authority *authority
	bytes     atomic.Int64  // applied since the last snapshot
	last      atomic.Int64  // when something was applied, in nanoseconds
	decided   atomic.Uint64 // raft's newest entry that was
	busy      atomic.Bool   // a snapshot is being made
}

var (
	_ raft.BatchingFSM        = (*fsm)(nil)
	_ raft.ConfigurationStore = (*fsm)(nil)
)

// decided is what raft hands back for a proposed entry.
type decided struct {
	index   uint64
	results []ledger.Result
	err     error
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	f.bytes.Add(int64(len(l.Data)))
	results, err := f.feed.apply(l.Index, l.Data)
	return decided{index: l.Index, results: results, err: err}
}

// ApplyBatch implements raft.BatchingFSM.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	for i, l := range logs {
		switch l.Type {
		case raft.LogCommand:
			out[i] = f.Apply(l)
		case raft.LogConfiguration:
			f.StoreConfiguration(l.Index, raft.DecodeConfiguration(l.Data))
		}
	}
	if len(logs) > 0 {
		f.decided.Store(logs[len(logs)-1].Index)
	}
	f.last.Store(time.Now().UnixNano())
	f.feed.wakes.moved.fire()
	return out
}

// StoreConfiguration implements raft.ConfigurationStore: it hears of committed configurations only.
func (f *fsm) StoreConfiguration(index uint64, c raft.Configuration) {
	f.authority.setVoters(index, votersOf(c))
}

// Snapshot implements raft.FSM. The replica may be ahead of raft here: it took committed entries
// from the coordinator's stream. The snapshot then holds more than raft believes, and the entries
// that follow are skipped when they are applied to it.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.bytes.Store(0)
	if err := f.feed.unread.err(); err != nil { // raft is further than what was applied: its log is all there is of the rest
		return nil, err
	}
	b, err := f.feed.rep.Encode()
	if err != nil {
		return nil, fmt.Errorf("snapshot of the ledger: %w", err)
	}
	return fsmSnapshot(b), nil
}

// Restore implements raft.FSM. A snapshot older than the replica is not needed.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("restore the ledger: %w", err)
	}
	st, err := ledger.DecodeState(b)
	if errors.Is(err, wire.ErrUnknown) {
		return f.feed.unread.stop(f.feed.rep.Applied()+1, err, f.feed.log)
	}
	if err != nil {
		return fmt.Errorf("restore the ledger: %w", err)
	}
	f.feed.reset(st)
	return nil
}

// snapshotIfDue asks raft for a snapshot when enough has gathered, in a quiet moment if there is
// one: encoding the state holds up what is being applied.
func (f *fsm) snapshotIfDue(s *seat) {
	b, quiet := f.bytes.Load(), time.Since(time.Unix(0, f.last.Load())) > time.Second
	if b < snapshotBytes/4 || b < snapshotBytes && !quiet || !f.busy.CompareAndSwap(false, true) {
		return
	}
	defer f.busy.Store(false)
	_ = s.raft.Snapshot().Error() // raft logs it; the next look tries again
}

// fsmSnapshot is an encoded state.
type fsmSnapshot []byte

// Persist implements raft.FSMSnapshot.
func (b fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := io.Copy(sink, bytes.NewReader(b)); err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (fsmSnapshot) Release() {}

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

// apply feeds one committed entry into replica and ring, from whichever source it comes first.
func (f *feed) apply(index uint64, data []byte) ([]ledger.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if index <= f.rep.Applied() {
		return nil, nil
	}
	if f.unread.stops(index) {
		return nil, f.unread.err()
	}
	e, err := ledger.ReadEntry(index, data)
	if errors.Is(err, wire.ErrUnknown) {
		return nil, f.unread.stop(index, err, f.log)
	}
	if err != nil { // not applied, so that the chain differs: a voter is seated anew (see comparison)
		f.log.Error("an entry of the ledger cannot be read: this peer's disk or memory is bad", "index", index, "err", err)
		return nil, fmt.Errorf("ledger entry %d cannot be read: %w", index, err)
	}
	f.unread.clear()
	results := f.rep.Apply(e)
	f.ring.add(index, data)
	return results, nil
}

// reset replaces the replica by a snapshot, unless it is further already.
func (f *feed) reset(st *ledger.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var g uint64
	f.rep.Read(func(s *ledger.State) { g = s.Generation() })
	have := f.rep.Applied()
	if st.Generation() < g || st.Generation() == g && (st.Index() < have || st.Index() == have && !f.compared.wrong()) {
		return
	}
	f.rep.Reset(st)
	f.unread.clear()
	f.compared.set(0, "")
	f.ring.reset(st.Index())
	f.wakes.moved.fire()
}

// renewLog makes a snapshot and cuts off all entries before it if there are some without checksums.
func (s *seat) renewLog() {
	if !s.store.Unsummed() {
		return
	}
	_ = s.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = 0 })
	_ = s.raft.Snapshot().Error() // raft logs it; the next look tries again
	_ = s.reload(func(c *raft.ReloadableConfig) { c.TrailingLogs = trailingLogs })
}

// reload changes raft's settings, one change at a time.
func (s *seat) reload(f func(*raft.ReloadableConfig)) error {
	s.settings.Lock()
	defer s.settings.Unlock()
	c := s.raft.ReloadableConfig()
	f(&c)
	return s.raft.ReloadConfig(c)
}
