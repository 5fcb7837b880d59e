package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"
)

// segmentBytes is the size of one file of the log; it is preallocated.
const segmentBytes = 4 << 20

// logStore is raft's log and its few stable values: entries in segment files, one fsync per batch of entries.
type logStore struct {
	*wal.WAL
	meta *metadb.BoltMetaDB
}

// openLogStore opens or creates a log in a folder.
func openLogStore(dir string, logger hclog.Logger) (*logStore, error) {
	if err := proveMeta(dir); err != nil {
		return nil, damagedLog(dir, err)
	}
	meta := &metadb.BoltMetaDB{}
	w, err := wal.Open(dir, wal.WithMetaStore(meta), wal.WithSegmentSize(segmentBytes), wal.WithLogger(logger))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger's log in %s: %w", dir, err), meta.Close())
	}
	return &logStore{WAL: w, meta: meta}, nil
}

// proveMeta reads the log's small store before anybody trusts its pages: a torn one leads to pages beyond its end (a fault) or to
// nonsense (a panic). Segments without it are a log without its beginning.
func proveMeta(dir string) (err error) {
	path := filepath.Join(dir, metadb.FileName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if segments, _ := filepath.Glob(filepath.Join(dir, "*.wal")); len(segments) > 0 {
			return fmt.Errorf("%s is missing", path)
		}
		return nil
	case err != nil:
		return err
	case info.Size() == 0:
		return fmt.Errorf("%s is empty", path)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", path, r)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error { return nil })
		})
	})
	return errors.Join(err, db.Close())
}

// configured is the index of the newest configuration in the log, or in the newest snapshot. (Raft itself does not tell: the index of
// its GetConfiguration is always 0.)
func (s *logStore) configured(snaps raft.SnapshotStore) (uint64, error) {
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	for i := last; i >= first && i > 0; i-- {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			return 0, err
		}
		if l.Type == raft.LogConfiguration {
			return i, nil
		}
	}
	metas, err := snaps.List()
	if err != nil || len(metas) == 0 {
		return 0, err
	}
	return metas[0].ConfigurationIndex, nil
}

// Close closes the log and, what the log itself forgets, its meta store: otherwise the folder stays locked.
func (s *logStore) Close() error { return errors.Join(s.WAL.Close(), s.meta.Close()) }
