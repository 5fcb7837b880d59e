package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
)

// fsm is raft's view of the replica. Raft calls it from one goroutine.
type fsm struct {
	feed    *feed
	voters  func(index uint64, v []Voter) // hears of committed configurations
	bytes   atomic.Int64                  // applied since the last snapshot
	last    atomic.Int64                  // when something was applied, in nanoseconds
	decided atomic.Uint64                 // raft's newest entry that was
	busy    atomic.Bool                   // a snapshot is being made
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

func (f *fsm) Apply(l *raft.Log) any {
	f.bytes.Add(int64(len(l.Data)))
	results, err := f.feed.apply(l.Index, l.Data, ledger.ReadEntry)
	return decided{index: l.Index, results: results, err: err}
}

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
	f.voters(index, votersOf(c))
}

var errLacking = errors.New("of some jobs this peer does not know yet what they run")

// lacks tells whether a replica does not know of all jobs what they run.
func lacks(rep *ledger.Replica) (some bool) {
	rep.Read(func(s *ledger.State) { some = len(ledger.Lacking(s)) > 0 })
	return some
}

// Snapshot implements raft.FSM. The replica may be ahead of raft here: it took committed entries
// from the coordinator's stream. The snapshot then holds more than raft believes, and the entries
// that follow are skipped when they are applied to it.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.bytes.Store(0)
	if err := f.feed.unread.err(); err != nil { // raft is further than what was applied: its log is all there is of the rest
		return nil, err
	}
	if lacks(f.feed.rep) { // raft's log has what is lacking
		return nil, errLacking
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
	st, err := readState(b)
	if errors.Is(err, wire.ErrUnknown) {
		return f.feed.stop(f.feed.rep.Applied()+1, err)
	}
	if err != nil {
		return fmt.Errorf("restore the ledger: %w", err)
	}
	f.feed.reset(st)
	return nil
}

// fsmSnapshot is an encoded state.
type fsmSnapshot []byte

func (b fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := io.Copy(sink, bytes.NewReader(b)); err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}

func (fsmSnapshot) Release() {}
