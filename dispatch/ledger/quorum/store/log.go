package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/raftlog"
)

// Log is raft's log and its few stable values: entries in segment files, one fsync per batch of
// entries. It makes of a disk that fails what raft expects of one, and what neither raft nor its
// log cope with by themselves:
//
//   - After a failed write the log under it refuses all others. It is opened anew before the next
//
// one, and what the failed write may have left behind is cut off: raft was told that it is not
// there.
//   - Raft ends the whole program when it cannot write its term. Here the term waits, and nothing
//
// that would rest on it – a vote, an entry – is written before it is. No seat votes twice in a
// term, and nothing is acknowledged that is not on disk.
//   - A write that does not come back is seen by others (see Stuck), while raft itself waits for
//     it.
//
// Raft reads from many goroutines and writes from two.
type Log struct {
	cfg  Config
	disk types.VFS
	log  hclog.Logger
	meta *metadb.BoltMetaDB

	write  sync.Mutex // one write at a time; guards what follows
	last   uint64     // the newest entry that was acknowledged to raft
	broken bool       // the log refuses to be written: open it anew first
	term   *uint64    // raft's term, if it could not be written yet
	acked  *acked     // nil: no marks are kept
	summed uint64     // every entry from here on has a checksum

	open sync.RWMutex // guards wal: held while it is used, exclusively while it is exchanged
	wal  *wal.WAL

	since   atomic.Pointer[time.Time] // when the write under way began; nil while there is none
	trouble atomic.Pointer[error]     // of the last write, nil if it succeeded
	barred  atomic.Pointer[error]     // nothing is written any more: the seat is unsound
}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.StableStore       = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)

// Config of a Log. Dir and Log are required.
type Config struct {
	Dir string // there must be one
	Log *slog.Logger
	// Entry tells whether a decision makes sense: all that can be said of one from before entries
	// had checksums. nil: any does.
	Entry func(data []byte) error
	// Moved is called when a write begins, by the writer; it must be quick.
	Moved func()
	// Aside is called before entries are taken out of the end of the log, because a leader has
	// others or a snapshot in their place. It keeps what would be lost; its error keeps them in
	// the log. nil keeps nothing.
	Aside func(log raft.LogStore, from, to uint64) error
	// TakenBack is called when a leader has another entry in place of one that was decided, which
	// stays; it must be quick. nil: it is not.
	TakenBack func(index uint64)
	Hurt      func() error // for tests: asked before every write, which fails with what it answers, or waits for it
}

// Unsound is an error that says: this log has lost something, or is older than what was
// acknowledged, and must not be voted with.
type Unsound struct {
	Why  error
	Held uint64 // the log had reached this entry, as far as is known
	Left uint64 // what is left of it ends at this one
}

// Error implements error.
func (u *Unsound) Error() string { return u.Why.Error() }

// Unwrap implements errors' convention.
func (u *Unsound) Unwrap() error { return u.Why }

// Open opens or creates a log in a folder. An error is an Unsound one if it is about what is on the
// disk.
func Open(cfg Config) (*Log, error) {
	if err := proveMeta(cfg.Dir); err != nil {
		return nil, &Unsound{Why: err}
	}
	if cfg.Hurt == nil {
		cfg.Hurt = func() error { return nil }
	}
	if cfg.Moved == nil {
		cfg.Moved = func() {}
	}
	if cfg.Entry == nil {
		cfg.Entry = func([]byte) error { return nil }
	}
	s := &Log{cfg: cfg, disk: faultyDisk{walfs.New(), cfg.Hurt}, log: raftlog.New(cfg.Log).Named("wal"), meta: &metadb.BoltMetaDB{}}
	var err error
	if s.wal, err = openWAL(cfg.Dir, s.meta, s.disk, s.log); err == nil {
		s.last, err = s.wal.LastIndex()
	}
	if err == nil {
		s.summed, err = summedFrom(s.wal, s.last)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("open the ledger's log in %s: %w", cfg.Dir, err), s.meta.Close())
		if !passing(err) {
			err = &Unsound{Why: err}
		}
		return nil, err
	}
	return s, nil
}

// passing tells of an error of the disk that says nothing about what is on it.
func passing(err error) bool {
	of := []error{fs.ErrPermission, syscall.ENOSPC, syscall.EROFS, syscall.EMFILE, syscall.ENFILE}
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// Bar refuses every write from now on: no vote and no acknowledgement rests on this log any more.
func (s *Log) Bar(why error) { s.barred.Store(&why) }

// change carries out one write, after what earlier failures left to do. It notes how it went.
func (s *Log) change(f func() error) error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.locked(f)
}

// locked is change for one who holds write.
func (s *Log) locked(f func() error) error {
	now := time.Now()
	s.since.Store(&now)
	s.cfg.Moved()
	defer s.since.Store(nil)
	var err error
	if why := s.barred.Load(); why != nil {
		err = *why
	} else {
		err = s.mend()
	}
	if err == nil {
		err = f()
	}
	if err != nil {
		s.trouble.Store(&err)
		return err
	}
	s.trouble.Store(nil)
	return nil
}

// mend opens a log that broke and writes a term that could not be written. The caller holds write.
func (s *Log) mend() error {
	if s.broken {
		if err := s.reopen(); err != nil {
			return fmt.Errorf("open the ledger's log again: %w", err)
		}
		s.broken = false
	}
	if s.term != nil {
		if err := s.set(keyTerm, *s.term); err != nil {
			return err
		}
		s.term = nil
	}
	return nil
}

// reopen exchanges the log for one opened anew, and cuts off what raft does not know to be there.
func (s *Log) reopen() error {
	fresh, err := openWAL(s.cfg.Dir, s.meta, s.disk, s.log)
	if err != nil {
		return err
	}
	first, err1 := fresh.FirstIndex()
	last, err2 := fresh.LastIndex()
	if err = errors.Join(err1, err2); err == nil && last > s.last {
		err = fresh.DeleteRange(max(first, s.last+1), last)
	}
	if err != nil {
		return errors.Join(err, fresh.Close())
	}
	s.open.Lock()
	old := s.wal
	s.wal = fresh
	s.open.Unlock()
	return old.Close()
}

// StoreLogs implements raft.LogStore: on disk when it returns.
func (s *Log) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	return s.change(func() error {
		if err := s.wal.StoreLogs(summed(logs)); err != nil {
			s.broken = true
			return err
		}
		s.last = logs[len(logs)-1].Index
		s.acked.to(s.last)
		return nil
	})
}

// StoreLog implements raft.LogStore.
func (s *Log) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// DeleteRange implements raft.LogStore: a prefix or a suffix.
func (s *Log) DeleteRange(low, high uint64) error {
	return s.change(func() error {
		if high >= s.last && low > 0 {
			if err := s.setAside(low, high); err != nil {
				return err
			}
			if err := s.acked.shrinks(low, high); err != nil {
				if errors.As(err, new(errTakenBack)) && s.cfg.TakenBack != nil {
					s.cfg.TakenBack(low)
				}
				return err
			}
		}
		if err := s.wal.DeleteRange(low, high); err != nil {
			s.broken = true
			return err
		}
		if high >= s.last && low > 0 {
			s.last = min(s.last, low-1)
		}
		return nil
	})
}

// setAside has what is about to be taken out of the end of the log kept elsewhere: what is not
// known to be decided, or everything where a snapshot of the leader's comes in its place, which may
// be of another history. The caller holds write.
func (s *Log) setAside(low, high uint64) error {
	if s.cfg.Aside == nil || s.acked == nil {
		return nil
	}
	from := max(low, s.acked.known()+1)
	if newestSnapshot(s.acked.snaps) >= high {
		from = low
	}
	if from > high {
		return nil
	}
	return s.cfg.Aside(s, from, high)
}

// FirstIndex implements raft.LogStore.
func (s *Log) FirstIndex() (uint64, error) {
	s.open.RLock()
	defer s.open.RUnlock()
	return s.wal.FirstIndex()
}

// LastIndex implements raft.LogStore.
func (s *Log) LastIndex() (uint64, error) {
	s.open.RLock()
	defer s.open.RUnlock()
	return s.wal.LastIndex()
}

// GetLog implements raft.LogStore.
func (s *Log) GetLog(index uint64, l *raft.Log) error { return s.readLog(index, l) }

// IsMonotonic implements raft.MonotonicLogStore: entries come without gaps.
func (s *Log) IsMonotonic() bool { return true }

// keyTerm is the name under which raft keeps its term.
const keyTerm = "CurrentTerm"

// SetUint64 implements raft.StableStore. A term that cannot be written is kept for later and is no
// error.
func (s *Log) SetUint64(key []byte, v uint64) error {
	if string(key) != keyTerm {
		return s.change(func() error { return s.set(string(key), v) })
	}
	err := s.change(func() error { return s.set(keyTerm, v) })
	if err != nil {
		s.write.Lock()
		s.term = &v
		s.write.Unlock()
	}
	return nil
}

// set writes a stable number. The caller holds write.
func (s *Log) set(key string, v uint64) error {
	if err := s.cfg.Hurt(); err != nil {
		return err
	}
	if err := s.wal.SetUint64([]byte(key), v); err != nil || key != keyTerm {
		return err
	}
	return s.acked.took(v)
}

// GetUint64 implements raft.StableStore.
func (s *Log) GetUint64(key []byte) (uint64, error) {
	s.open.RLock()
	defer s.open.RUnlock()
	return s.wal.GetUint64(key)
}

// Set implements raft.StableStore.
func (s *Log) Set(key, value []byte) error {
	return s.change(func() error {
		if err := s.cfg.Hurt(); err != nil {
			return err
		}
		return s.wal.Set(key, value)
	})
}

// Get implements raft.StableStore.
func (s *Log) Get(key []byte) ([]byte, error) {
	s.open.RLock()
	defer s.open.RUnlock()
	return s.wal.Get(key)
}

// Close closes the log and, what the log itself forgets, its meta store: otherwise the folder stays
// locked. While a write is stuck it does not wait: both are closed when that comes back, if the
// program still runs then.
func (s *Log) Close() error {
	if _, yes := s.Stuck(); yes {
		err := s.Health()
		go s.close() //nolint:errcheck // ends with the write that is stuck; nobody is left to be told
		return err
	}
	return s.close()
}

func (s *Log) close() error {
	s.write.Lock()
	defer s.write.Unlock()
	s.open.Lock()
	defer s.open.Unlock()
	return errors.Join(s.wal.Close(), s.meta.Close(), s.acked.close())
}

// Configuration is the newest one in the log, or in the newest snapshot, and its index. (Raft
// itself does not tell: the index of its GetConfiguration is always 0.)
func (s *Log) Configuration(snaps raft.SnapshotStore) (c raft.Configuration, index uint64, err error) {
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return c, 0, err
	}
	for i := last; i >= first && i > 0; i-- {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			return c, 0, err
		}
		if l.Type == raft.LogConfiguration {
			c, err := decodeConfiguration(l.Data)
			return c, i, err
		}
	}
	metas, err := snaps.List()
	if err != nil || len(metas) == 0 {
		return c, 0, err
	}
	return metas[0].Configuration, metas[0].ConfigurationIndex, nil
}

// decodeConfiguration reads what raft wrote; raft panics when it cannot.
func decodeConfiguration(b []byte) (c raft.Configuration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a configuration in the ledger's log: %v", r)
		}
	}()
	return raft.DecodeConfiguration(b), nil
}
