package blob

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
)

// Shelved is a store as a Shelf.
func Shelved(s *store.Store) Shelf { return shelved{s} }

type shelved struct{ s *store.Store }

func (s shelved) Have(root piece.Root) (int64, *piece.Bitmap) {
	h := s.s.Have(root)
	return h.Size, h.Pieces
}

func (s shelved) Open(root piece.Root) (Copy, error) {
	r, err := s.s.Reader(root)
	if err != nil {
		return nil, err
	}
	return storedCopy{r}, nil
}

type storedCopy struct{ *store.Reader }

func (c storedCopy) Proof() (piece.Proof, error) { return c.Blob().Proof(), nil }

// Kept is a store as a Sink. What came stays leased until Close, so that there is time to read or
// to pin it.
type Kept struct {
	s   *store.Store
	own bool

	flushing sync.Mutex // taken before room
	room     sync.RWMutex
	batch    *store.Batch // small blobs; guarded by room

	mu       sync.Mutex
	puts     int // into batch
	bytes    int
	batches  []*store.Batch // that were flushed
	released []func()
}

// Keep begins with nothing. own: this peer's owner wants it, and the quota for others does not
// count.
func Keep(s *store.Store, own bool) *Kept {
	return &Kept{s: s, own: own, batch: s.Batch(own)}
}

// Close gives up the leases. It comes after the last Fetch.
func (k *Kept) Close() {
	for _, b := range append(k.batches, k.batch) {
		b.Close()
	}
	for _, release := range k.released {
		release()
	}
}

// A batch is flushed when it has so many blobs or bytes.
const (
	batchBlobs = 4096
	batchBytes = 256 << 20
)

// Whole implements Sink.
func (k *Kept) Whole(root piece.Root) (int64, bool) {
	h := k.s.Have(root)
	return h.Size, h.Whole && k.lease(root) == nil
}

// lease keeps a blob until Close.
func (k *Kept) lease(root piece.Root) error {
	release, err := k.s.Lease(root, "fetched")
	if err == nil {
		k.mu.Lock()
		k.released = append(k.released, release)
		k.mu.Unlock()
	}
	return err
}

// Put implements Sink.
func (k *Kept) Put(root piece.Root, data []byte) error {
	k.room.RLock()
	err := k.batch.Put(root, data)
	k.room.RUnlock()
	if err != nil {
		return wrong(err)
	}
	k.mu.Lock()
	k.puts++
	k.bytes += len(data)
	full := k.puts >= batchBlobs || k.bytes >= batchBytes
	k.mu.Unlock()
	if full {
		return k.Flush()
	}
	return nil
}

// Flush implements Sink.
func (k *Kept) Flush() error {
	k.flushing.Lock()
	defer k.flushing.Unlock()
	k.room.Lock()
	b := k.batch
	k.mu.Lock()
	if k.puts == 0 {
		b = nil
	} else {
		k.batch, k.puts, k.bytes = k.s.Batch(k.own), 0, 0
		k.batches = append(k.batches, b)
	}
	k.mu.Unlock()
	k.room.Unlock()
	if b == nil {
		return nil
	}
	return b.Done()
}

// Begin implements Sink.
func (k *Kept) Begin(ctx context.Context, b piece.Blob) (Incoming, error) {
	f, err := k.s.Begin(ctx, b, k.own)
	if err != nil {
		return nil, wrong(err)
	}
	return &storing{f, k, b.Root()}, nil
}

// storing is a blob that the store fetches.
type storing struct {
	*store.Fetch
	k    *Kept
	root piece.Root
}

func (s *storing) Piece(i int, data []byte) error { return wrong(s.Fetch.Piece(i, data)) }

func (s *storing) Done() error {
	if err := s.Fetch.Done(); err != nil {
		return err
	}
	return s.k.lease(s.root)
}

// wrong makes what the store says of bytes that do not belong to a blob ErrWrong.
func wrong(err error) error {
	if errors.Is(err, store.ErrPiece) || errors.Is(err, store.ErrSize) {
		return fmt.Errorf("%w: %w", ErrWrong, err)
	}
	return err
}
