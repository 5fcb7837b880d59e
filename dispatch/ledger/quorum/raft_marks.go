package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger/quorum/mark"
)

// acked is the own mark of a seat's log: how far it has acknowledged, on disk before raft hears that a write succeeded. A nil one, of a log
// that belongs to no seat yet, writes nothing. Guarded by logStore.write, but for what is read before anything is written.
type acked struct {
	file  *mark.File
	self  mark.Mark // server and generation
	term  uint64    // raft's, as the log's stable store has it
	snaps raft.SnapshotStore
	hurt  func() error
	now   atomic.Pointer[mark.Mark] // what is on disk, for whoever shows it
	// decided is the newest entry of this log that is known to be decided. No leader takes it back.
	decided func() uint64
}

// before is what the mark says of this seat: nothing while it is still that of the seat, or the generation, before it.
func (a *acked) before() mark.Mark {
	if m := a.file.Mark(); m.Same(a.self) {
		return m
	}
	return a.self
}

// to is the mark of a log that ends at an entry now.
func (a *acked) to(index uint64) error {
	if a == nil {
		return nil
	}
	m := a.self
	m.Term, m.Index, m.Voted = a.term, index, max(a.term, a.before().Voted)
	return a.put(m)
}

// took notes a new term: from now on there may be a vote in it.
func (a *acked) took(term uint64) error {
	if a == nil {
		return nil
	}
	a.term = term
	m := a.before()
	m.Voted = max(m.Voted, term)
	return a.put(m)
}

func (a *acked) put(m mark.Mark) error {
	if err := a.hurt(); err != nil {
		return err
	}
	m.Decided = max(a.decided(), a.before().Decided)
	if err := a.file.Put(m); err != nil {
		return err
	}
	a.now.Store(&m)
	return nil
}

// note brings to the disk how far what is in the log was decided, if no later entry has. It waits for no other write, which does the same.
func (s *logStore) note() error {
	if !s.write.TryLock() {
		return nil
	}
	defer s.write.Unlock()
	if s.acked == nil || s.acked.decided() <= s.acked.file.Mark().Decided {
		return nil
	}
	return s.locked(func() error { return s.acked.put(s.acked.file.Mark()) })
}

// shrinks notes, before it happens, that everything from an entry on is taken out of the log: because another leader decided otherwise, or
// because a snapshot has it all.
func (a *acked) shrinks(from, to uint64) error {
	if a == nil {
		return nil
	}
	snap := newestSnapshot(a.snaps)
	if decided := max(a.decided(), a.before().Decided); from <= decided && snap < to {
		return errTakenBack{from: from, decided: decided}
	}
	return a.to(max(from-1, snap))
}

// errTakenBack is why a voter does not follow a leader: one that was elected by voters that had lost something.
type errTakenBack struct{ from, decided uint64 }

func (e errTakenBack) Error() string {
	return fmt.Sprintf("the coordinator's log differs from entry %d on, and what this peer has up to entry %d was decided: voters whose disks lost it have elected another; "+
		"this peer keeps what it has. Stop them and type `peer recover` here", e.from, e.decided)
}

func (a *acked) close() error {
	if a == nil {
		return nil
	}
	return a.file.Close()
}

// newestSnapshot is the index of the newest snapshot, 0 if there is none.
func newestSnapshot(snaps raft.SnapshotStore) uint64 {
	metas, err := snaps.List()
	if err != nil || len(metas) == 0 {
		return 0
	}
	return metas[0].Index
}

// markedSnaps is a store of snapshots that moves the mark when one has come from the leader: it is acknowledged like entries are.
type markedSnaps struct {
	raft.SnapshotStore
	store *logStore
}

// Create implements raft.SnapshotStore.
func (s markedSnaps) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, c, at, t)
	if err != nil {
		return nil, err
	}
	return markedSink{sink, s.store, index}, nil
}

type markedSink struct {
	raft.SnapshotSink
	store *logStore
	index uint64
}

// Close implements raft.SnapshotSink.
func (s markedSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return s.store.change(func() error {
		if s.store.acked == nil || s.index <= s.store.acked.file.Mark().Index {
			return nil
		}
		return s.store.acked.to(s.index)
	})
}

func (n *Node) markPath() string { return cmp.Or(n.cfg.Mark, filepath.Join(n.cfg.Dir, "mark")) }

// checkLog refuses a log that has less than it is known to have had, and keeps its mark from now on.
func (n *Node) checkLog(s *seat, snaps raft.SnapshotStore) error {
	file, m, err := mark.Open(n.markPath())
	if err != nil {
		return err
	}
	term, last, err := s.store.reach(snaps)
	if err != nil {
		return err
	}
	n.mu.Lock()
	bound, marked := n.bound, n.tenure.marked
	n.tenure.marked = false
	n.mu.Unlock()
	self := mark.Mark{Server: s.self.server(), Generation: s.generation}
	held := mark.Mark{Server: self.Server, Generation: self.Generation}
	if bound.generation == s.generation {
		held.Index = bound.index
	}
	switch {
	case m.Same(self):
		held.Index, held.Voted = max(held.Index, m.Index), m.Voted
	case marked && !s.store.alone(snaps, s.self.server()):
		return &unsound{why: fmt.Errorf("the mark of how far it had acknowledged, %s, is missing or damaged", n.markPath()), held: held.Index, left: last}
	case marked:
		n.cfg.Log.Warn("the mark of how far the ledger's log went is missing or damaged; nobody else votes, and the log is taken as it is", "file", n.markPath(), "end", last)
	}
	switch {
	case last < held.Index:
		return &unsound{why: errors.New("the end of its log is gone"), held: held.Index, left: last}
	case term < held.Voted:
		return &unsound{why: fmt.Errorf("it knows of no term after %d, and had taken part in term %d", term, held.Voted), held: held.Index, left: last}
	}
	s.store.acked = &acked{file: file, self: self, term: term, snaps: snaps, hurt: s.store.hurt, decided: s.fsm.decided.Load}
	if m.Same(self) {
		s.store.acked.now.Store(&m)
		return nil
	}
	if err := s.store.acked.to(last); err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// reach is the newest term a log knows of, and its end, snapshots included.
func (s *logStore) reach(snaps raft.SnapshotStore) (term, last uint64, err error) {
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	term, err3 := s.GetUint64([]byte(keyTerm))
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, 0, &unsound{why: fmt.Errorf("read the ledger's log in %s: %w", s.dir, err)}
	}
	snap := newestSnapshot(snaps)
	if first > snap+1 {
		return 0, 0, &unsound{why: fmt.Errorf("the ledger's log in %s begins at entry %d, and the snapshot of what was before is missing", s.dir, first), left: snap}
	}
	return term, max(last, snap), nil
}

// alone tells whether a server is the only voter of the newest configuration in a log.
func (s *logStore) alone(snaps raft.SnapshotStore, server string) bool {
	c, _, err := s.configuration(snaps)
	if err != nil {
		return false
	}
	voters := 0
	for _, v := range c.Servers {
		if v.Suffrage == raft.Voter {
			voters++
		}
		if v.Suffrage == raft.Voter && string(v.ID) != server {
			return false
		}
	}
	return voters == 1
}
