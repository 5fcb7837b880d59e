package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// segmentBytes is the size of one file of the log; it is preallocated.
const segmentBytes = 4 << 20

// keptMeta is a meta store that outlives the log it belongs to: one that is opened anew goes on
// with it.
type keptMeta struct{ *metadb.BoltMetaDB }

func (keptMeta) Close() error { return nil }

// openWAL opens or creates a log in a folder. meta is opened with it, and stays open when the log
// is closed.
func openWAL(dir string, meta *metadb.BoltMetaDB, disk types.VFS, logger hclog.Logger) (*wal.WAL, error) {
	return wal.Open(dir, wal.WithMetaStore(keptMeta{meta}), wal.WithSegmentFiler(segment.NewFiler(dir, disk)), wal.WithSegmentSize(segmentBytes), wal.WithLogger(logger))
}

// proveMeta reads the log's small store before anybody trusts its pages: a torn one leads to pages
// beyond its end (a fault) or to nonsense (a panic). Segments without it are a log without its
// beginning.
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
		if tx.Size() > info.Size() {
			return fmt.Errorf("%s is cut off at %d bytes of %d", path, info.Size(), tx.Size())
		}
		for _, name := range []string{metadb.MetaBucket, metadb.StableBucket} { // raft-wal takes it that both are there
			if tx.Bucket([]byte(name)) == nil {
				return fmt.Errorf("%s has no %s in it any more", path, name)
			}
		}
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error { return nil })
		})
	})
	return errors.Join(err, db.Close())
}
