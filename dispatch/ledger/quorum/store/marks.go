package store

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
)

// acked is the own mark of a seat's log: how far it has acknowledged. No append waits for the mark
// to reach the disk: the log itself holds what was acknowledged, and the mark follows once a second
// (Note). A term, and a cut at the end of the log, wait for it: the log shows neither afterwards.
// The mark on disk is therefore never beyond the log, and at most a second behind it. A nil one, of
// a log that belongs to no seat yet, writes nothing. Guarded by Log.write, but for now.
type acked struct {
	file  *mark.File
	self  mark.Mark // server and generation
	term  uint64    // raft's, as the log's stable store has it
	snaps raft.SnapshotStore
	hurt  func() error
	now   atomic.Pointer[mark.Mark] // what is acknowledged, for those that show it
	// decided is the newest entry of this log that is known to be decided. No leader takes it back.
	decided func() uint64
}

// to is the mark of a log that ends at an entry now.
func (a *acked) to(index uint64) {
	if a != nil {
		m := a.at(index)
		a.now.Store(&m)
	}
}

func (a *acked) at(index uint64) mark.Mark {
	m := *a.now.Load()
	m.Term, m.Index, m.Voted = a.term, index, max(a.term, m.Voted)
	return m
}

// took notes a new term: from now on there may be a vote in it.
func (a *acked) took(term uint64) error {
	if a == nil {
		return nil
	}
	a.term = term
	m := *a.now.Load()
	m.Voted = max(m.Voted, term)
	return a.put(m)
}

// put writes a mark, on disk when it returns.
func (a *acked) put(m mark.Mark) error {
	if err := a.hurt(); err != nil {
		return err
	}
	m.Decided = a.known()
	if err := a.file.Put(m); err != nil {
		return err
	}
	a.now.Store(&m)
	return nil
}

// Note brings the mark to the disk, if it moved. It waits for no other write: the next Note does
// the same. The caller calls it once a second while entries come.
func (s *Log) Note() error {
	if !s.write.TryLock() {
		return nil
	}
	defer s.write.Unlock()
	if s.acked == nil || !s.acked.moved() {
		return nil
	}
	return s.locked(func() error { return s.acked.put(*s.acked.now.Load()) })
}

// moved reports whether the mark on disk is behind.
func (a *acked) moved() bool {
	m := *a.now.Load()
	m.Decided = a.known()
	return m != a.file.Mark()
}

// shrinks notes, before it happens, that everything from an entry on is taken out of the log:
// because another leader decided otherwise, or because a snapshot has it all.
func (a *acked) shrinks(from, to uint64) error {
	if a == nil {
		return nil
	}
	snap := newestSnapshot(a.snaps)
	if decided := a.known(); from <= decided && snap < to {
		return errTakenBack{from: from, decided: decided}
	}
	return a.put(a.at(max(from-1, snap)))
}

// errTakenBack is why a voter does not follow a leader: one that was elected by voters that had
// lost something.
type errTakenBack struct{ from, decided uint64 }

func (e errTakenBack) Error() string {
	return fmt.Sprintf("the coordinator's log differs from entry %d on, and what this peer has up to entry %d was decided: voters whose disks lost it have elected another; "+
		"this peer keeps what it has. Stop them and type `peer recover` here", e.from, e.decided)
}

// known is the newest entry that is known to be decided.
func (a *acked) known() uint64 { return max(a.decided(), a.now.Load().Decided) }

func (a *acked) close() error {
	if a == nil {
		return nil
	}
	var err error
	if a.moved() {
		err = a.put(*a.now.Load())
	}
	return errors.Join(err, a.file.Close())
}

// newestSnapshot is the index of the newest snapshot, 0 if there is none.
func newestSnapshot(snaps raft.SnapshotStore) uint64 {
	metas, err := snaps.List()
	if err != nil || len(metas) == 0 {
		return 0
	}
	return metas[0].Index
}

// Marked is a store of snapshots that moves the log's mark when one has come from the leader: it is
// acknowledged like entries are.
func (s *Log) Marked(snaps raft.SnapshotStore) raft.SnapshotStore { return markedSnaps{snaps, s} }

type markedSnaps struct {
	raft.SnapshotStore
	store *Log
}

func (s markedSnaps) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(v, index, term, c, at, t)
	if err != nil {
		return nil, err
	}
	return markedSink{sink, s.store, index}, nil
}

type markedSink struct {
	raft.SnapshotSink
	store *Log
	index uint64
}

func (s markedSink) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	return s.store.change(func() error {
		if a := s.store.acked; a != nil && s.index > a.now.Load().Index {
			a.to(s.index)
		}
		return nil
	})
}

// Promise is what a log is held against, and how its mark goes on.
type Promise struct {
	File    string    // of the mark
	Self    mark.Mark // server and generation
	Reaches uint64    // the log had this entry, as far as is known without the mark
	Marked  bool      // there must be a mark
	Decided func() uint64
}

// Check rejects a log that has less than it is known to have had, and keeps its mark from now on.
// It comes before the first write.
func (s *Log) Check(p Promise, snaps raft.SnapshotStore) error {
	file, m, err := mark.Open(p.File)
	if err != nil {
		return err
	}
	term, last, err := s.reach(snaps)
	if err != nil {
		return err
	}
	held := mark.Mark{Index: p.Reaches}
	switch {
	case m.Same(p.Self):
		held.Index, held.Voted = max(held.Index, m.Index), m.Voted
	case p.Marked && !s.alone(snaps, p.Self.Server):
		return &Unsound{Why: fmt.Errorf("the mark of how far it had acknowledged, %s, is missing or damaged", p.File), Held: held.Index, Left: last}
	case p.Marked:
		s.cfg.Log.Warn("the mark of how far the ledger's log went is missing or damaged; nobody else votes, and the log is taken as it is", "file", p.File, "end", last)
	}
	switch {
	case last < held.Index:
		return &Unsound{Why: errors.New("the end of its log is gone"), Held: held.Index, Left: last}
	case term < held.Voted:
		return &Unsound{Why: fmt.Errorf("it knows of no term after %d, and had taken part in term %d", term, held.Voted), Held: held.Index, Left: last}
	}
	s.acked = &acked{file: file, self: p.Self, term: term, snaps: snaps, hurt: s.cfg.Hurt, decided: p.Decided}
	s.acked.now.Store(&p.Self)
	if m.Same(p.Self) {
		s.acked.now.Store(&m)
	}
	s.acked.to(last) // the mark may be behind a log whose writer was killed
	if m.Same(p.Self) {
		return nil
	}
	if err := s.acked.put(*s.acked.now.Load()); err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// Acknowledged is the own mark; ok is false before there is one.
func (s *Log) Acknowledged() (m mark.Mark, ok bool) {
	if s.acked == nil {
		return m, false
	}
	return *s.acked.now.Load(), true
}

// reach is the newest term a log knows of, and its end, snapshots included.
func (s *Log) reach(snaps raft.SnapshotStore) (term, last uint64, err error) {
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	term, err3 := s.GetUint64([]byte(keyTerm))
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, 0, &Unsound{Why: fmt.Errorf("read the ledger's log in %s: %w", s.cfg.Dir, err)}
	}
	snap := newestSnapshot(snaps)
	if first > snap+1 {
		return 0, 0, &Unsound{Why: fmt.Errorf("the ledger's log in %s begins at entry %d, and the snapshot of what was before is missing", s.cfg.Dir, first), Left: snap}
	}
	return term, max(last, snap), nil
}

// alone tells whether a server is the only voter of the newest configuration in a log.
func (s *Log) alone(snaps raft.SnapshotStore, server string) bool {
	c, _, err := s.Configuration(snaps)
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
