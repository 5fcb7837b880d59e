package ledger

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
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
	meta := &metadb.BoltMetaDB{}
	w, err := wal.Open(dir, wal.WithMetaStore(meta), wal.WithSegmentSize(segmentBytes), wal.WithLogger(logger))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger's log in %s: %w", dir, err), meta.Close())
	}
	return &logStore{WAL: w, meta: meta}, nil
}

// Close closes the log and, what the log itself forgets, its meta store: otherwise the folder stays locked.
func (s *logStore) Close() error { return errors.Join(s.WAL.Close(), s.meta.Close()) }
