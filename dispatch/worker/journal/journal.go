package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterr "go.etcd.io/bbolt/errors"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/taskstate"
)

// FileName is the name of a worker's journal in the data folder.
const FileName = "worker.db"

// ErrInUse is returned when another process holds the journal.
var ErrInUse = errors.New("data folder in use")

// ErrCorrupt is returned for a journal that cannot be read to its end.
var ErrCorrupt = errors.New("worker journal is damaged")

// Journal makes transactions durable. Save is called by one goroutine at a time; it either did all
// of it or may be repeated with the same transaction: every operation in one is idempotent.
type Journal interface {
	Save(*Txn) error
	Close() error
}

// Opener opens the journal and reads all of it; when ctx ends it may give up.
type Opener func(ctx context.Context, owner Owner) (Journal, *Image, error)

// Owner is whose journal it is: batch numbers belong to one incarnation of one peer.
type Owner struct {
	Format      int                   `cbor:"1,keyasint"`
	Peer        taskstate.PeerID      `cbor:"2,keyasint"`
	Incarnation taskstate.Incarnation `cbor:"3,keyasint"`
}

// Format is raised when the shape of records changes.
const Format = 1

// lockWait is how long to wait for a process that is just ending to let go of the file.
const lockWait = 500 * time.Millisecond

// File is the journal in one bbolt file.
type File struct {
	db *bbolt.DB
}

// Peek reads the little that a session begins with: whose journal it is, which epoch was obeyed,
// which batches were signed.
func Peek(dir string, self taskstate.PeerID) (head Head, err error) {
	err = lookThrough(filepath.Join(dir, FileName), func(db *bbolt.DB) error {
		return db.View(func(tx *bbolt.Tx) error {
			var img Image
			err := boltKV{tx}.Each(BucketMeta, func(k, v []byte) error { return img.readMeta(k, v, self) })
			if err == nil && img.Owner.Incarnation == "" {
				err = errors.New("it does not say whose it is")
			}
			head = img.Head
			return err
		})
	})
	return head, err
}

// LastStart is the start of the peer that used the journal in a data folder last: 0 if there is
// none that can be read, or one of version 0.1.
func LastStart(dir string, self taskstate.PeerID) uint64 {
	if _, err := os.Stat(filepath.Join(dir, FileName)); err != nil {
		return 0
	}
	head, err := Peek(dir, self)
	if err != nil {
		return 0
	}
	return head.Start
}

// Open opens the journal in dir and reads all of it, which takes as long as it is large; ctx ends
// that early. It is marked as used by this start of the peer.
func Open(ctx context.Context, dir string, owner Owner, start uint64) (j *File, img *Image, err error) {
	path := filepath.Join(dir, FileName)
	// bbolt trusts its pages, and looks through them in a goroutine of its own when it opens a file
	// for writing. So all of it is read first, in this one.
	err = lookThrough(path, func(db *bbolt.DB) error {
		_, err := read(ctx, db, owner)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	db, err := openBolt(path, false)
	if err != nil {
		return nil, nil, err
	}
	img, err = read(ctx, db, owner)
	if err != nil {
		return nil, nil, errors.Join(explain(path, err), db.Close())
	}
	if start != 0 {
		// A disk that takes nothing now leaves the stamp of the start before, which is as good
		// while nobody is told.
		if db.Update(func(tx *bbolt.Tx) error { return putRecord(boltKV{tx}, BucketMeta, []byte("start"), start) }) == nil {
			img.Start = start
		}
	}
	return &File{db: db}, img, nil
}

// lookThrough reads in the file without changing it. A damaged one can lead to pages beyond its end
// (a fault) or to nonsense (a panic): both become an error here.
func lookThrough(path string, read func(*bbolt.DB) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(path, errors.New("its pages lead nowhere")) // r speaks of memory, to no person
		}
	}()
	db, err := openBolt(path, true)
	if err != nil {
		return err
	}
	if err = read(db); err != nil {
		err = explain(path, err)
	}
	return errors.Join(err, db.Close())
}

func read(ctx context.Context, db *bbolt.DB, owner Owner) (img *Image, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		img, err = Load(endingKV{boltKV{tx}, ctx}, owner)
		return err
	})
	return img, err
}

// endingKV is a journal whose reader may be told to end: a large one is not waited for by a peer
// that stops.
type endingKV struct {
	KV
	ctx context.Context
}

func (k endingKV) Each(bucket string, f func(key, value []byte) error) error {
	return k.KV.Each(bucket, func(key, value []byte) error {
		if err := k.ctx.Err(); err != nil {
			return err
		}
		return f(key, value)
	})
}

func explain(path string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, ErrForeign):
		return fmt.Errorf("%s: %w", path, err)
	}
	return corrupt(path, err)
}

// Create makes an empty journal under its final name in one step, so that a file found there later
// is whole or damaged, never half made. It takes the place of one that is there.
func Create(dir string, head Head) error {
	path := filepath.Join(dir, FileName)
	if err := create(path, head); err != nil {
		return fmt.Errorf("create the worker journal %s: %w", path, err)
	}
	return nil
}

func create(path string, head Head) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := openBolt(fresh, false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, b := range buckets() {
			if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
				return err
			}
		}
		return Init(boltKV{tx}, head)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return atomicfile.FlushDir(filepath.Dir(path))
}

// openBolt opens the file and translates what bbolt says about a file it cannot use.
func openBolt(path string, readOnly bool) (*bbolt.DB, error) {
	opt := *bbolt.DefaultOptions
	opt.Timeout = lockWait
	opt.ReadOnly = readOnly
	opt.NoFreelistSync = true // the list of free pages is rebuilt on open: one page less per transaction
	opt.FreelistType = bbolt.FreelistMapType
	opt.NoStatistics = true
	if err := checkSize(path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &opt)
	switch {
	case errors.Is(err, bolterr.ErrTimeout):
		return nil, fmt.Errorf("%w: another process holds %s; stop it first (`peer down`), or use another folder", ErrInUse, path)
	case errors.Is(err, bolterr.ErrInvalid), errors.Is(err, bolterr.ErrChecksum), errors.Is(err, bolterr.ErrVersionMismatch):
		return nil, corrupt(path, err)
	case err != nil:
		return nil, fmt.Errorf("open the worker journal %s: %w", path, err)
	}
	return db, nil
}

// checkSize refuses an existing file that is too short to hold anything: bbolt would start it
// afresh, and batch numbers that were used before would be used again.
func checkSize(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() < int64(2*os.Getpagesize()):
		return corrupt(path, fmt.Errorf("it has only %d bytes", info.Size()))
	}
	return nil
}

func corrupt(path string, err error) error {
	return fmt.Errorf("%w: %s: %w; what it held about tasks cannot be trusted", ErrCorrupt, path, err)
}

// Save implements Journal: one transaction, on disk when it returns.
func (j *File) Save(t *Txn) error {
	return j.db.Update(func(tx *bbolt.Tx) error { return t.Apply(boltKV{tx}) })
}

// Close implements Journal.
func (j *File) Close() error { return j.db.Close() }

// boltKV is a transaction as the plain map of buckets that records are written to.
type boltKV struct{ tx *bbolt.Tx }

func (k boltKV) bucket(name string) (*bbolt.Bucket, error) {
	b := k.tx.Bucket([]byte(name))
	if b == nil {
		return nil, fmt.Errorf("bucket %q is missing", name)
	}
	b.FillPercent = 0.9 // keys mostly ascend
	return b, nil
}

func (k boltKV) Put(bucket string, key, value []byte) error {
	b, err := k.bucket(bucket)
	if err != nil {
		return err
	}
	return b.Put(key, value)
}

func (k boltKV) Delete(bucket string, key []byte) error {
	b, err := k.bucket(bucket)
	if err != nil {
		return err
	}
	return b.Delete(key)
}

func (k boltKV) Each(bucket string, f func(key, value []byte) error) error {
	b, err := k.bucket(bucket)
	if err != nil {
		return err
	}
	return b.ForEach(f)
}
