package blob

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
)

// memory is a store of tests: a Shelf and a Sink.
type memory struct {
	mu    sync.Mutex
	blobs map[piece.Root]*kept

	// Hooks of hostile and unlucky ones; nil: none.
	raw    func(root piece.Root, b []byte, off int64) error // after b was read
	claims func(root piece.Root, size int64) (int64, *piece.Bitmap)
	values func(p piece.Proof) piece.Proof
	room   error
	slow   time.Duration // to say what it has

	verified []int
	taken    map[piece.Root]int // pieces that were put, more than once counted so
}

type kept struct {
	size  int64
	data  []byte
	proof piece.Proof
	has   *piece.Bitmap
	done  bool
}

func newMemory(blobs ...[]byte) *memory {
	m := &memory{blobs: map[piece.Root]*kept{}, taken: map[piece.Root]int{}}
	for _, b := range blobs {
		h := piece.NewHasher()
		_, _ = h.Write(b)
		root, proof, size := h.Sum()
		m.blobs[root] = &kept{size, b, proof, piece.FullBitmap(piece.Count(size)), true}
	}
	return m
}

func (m *memory) Have(root piece.Root) (int64, *piece.Bitmap) {
	time.Sleep(m.slow)
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.blobs[root]
	if m.claims != nil {
		size := int64(-1)
		if k != nil {
			size = k.size
		}
		return m.claims(root, size)
	}
	if k == nil {
		return 0, nil
	}
	has, err := piece.ParseBitmap(k.has.Len(), k.has.Bytes())
	if err != nil {
		panic(err)
	}
	return k.size, has
}

func (m *memory) Whole(root piece.Root) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.blobs[root]
	return int64(len(m.data(k))), k != nil && k.done
}

func (*memory) data(k *kept) []byte {
	if k == nil {
		return nil
	}
	return k.data
}

func (m *memory) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.blobs {
		if k.has.Len() == 1 {
			k.done = true
		}
	}
	return nil
}

func (m *memory) Open(root piece.Root) (Copy, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.blobs[root]
	if k == nil {
		return nil, errors.New("absent")
	}
	return &memoryCopy{m, k, root}, nil
}

type memoryCopy struct {
	m    *memory
	k    *kept
	root piece.Root
}

func (c *memoryCopy) Size() int64 {
	if c.m.claims != nil {
		if size, _ := c.m.claims(c.root, c.k.size); size > 0 {
			return size
		}
	}
	return c.k.size
}

func (c *memoryCopy) Proof() (piece.Proof, error) {
	if c.m.values != nil {
		return c.m.values(c.k.proof), nil
	}
	return c.k.proof, nil
}

func (c *memoryCopy) Raw(b []byte, off int64) (int, error) {
	c.m.mu.Lock()
	if !c.k.has.Has(int(off / piece.Size)) {
		c.m.mu.Unlock()
		return 0, errors.New("not here")
	}
	n := 0
	if off < int64(len(c.k.data)) {
		n = copy(b, c.k.data[off:])
	}
	c.m.mu.Unlock()
	if c.m.raw != nil {
		if err := c.m.raw(c.root, b, off); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (c *memoryCopy) Verify(i int) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.verified = append(c.m.verified, i)
	b, err := piece.Open(c.root, c.k.size, c.k.proof)
	if err != nil {
		return err
	}
	off, n := piece.Span(c.k.size, i)
	if !b.Check(i, c.k.data[off:][:n]) {
		c.k.has.Clear(i)
		return errors.New("rot")
	}
	return nil
}

func (*memoryCopy) Close() error { return nil }

func (m *memory) Put(root piece.Root, data []byte) error {
	if piece.Sum(data) != root {
		return ErrWrong
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken[root]++
	m.blobs[root] = &kept{int64(len(data)), append([]byte(nil), data...), nil, piece.FullBitmap(1), false}
	return m.room
}

func (m *memory) Begin(_ context.Context, b piece.Blob) (Incoming, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room != nil {
		return nil, m.room
	}
	k := m.blobs[b.Root()]
	if k != nil && k.size != b.Size() && k.has.Has(k.has.Len()-1) {
		return nil, ErrWrong
	}
	if k == nil || k.size != b.Size() {
		k = &kept{size: b.Size(), data: make([]byte, min(b.Size(), 64<<20)), proof: b.Proof(), has: piece.NewBitmap(b.Pieces())}
		m.blobs[b.Root()] = k
	}
	return &memoryIncoming{m, k, b}, nil
}

type memoryIncoming struct {
	m *memory
	k *kept
	b piece.Blob
}

func (in *memoryIncoming) Pieces() *piece.Bitmap {
	in.m.mu.Lock()
	defer in.m.mu.Unlock()
	has, err := piece.ParseBitmap(in.k.has.Len(), in.k.has.Bytes())
	if err != nil {
		panic(err)
	}
	return has
}

func (in *memoryIncoming) Piece(i int, data []byte) error {
	if !in.b.Check(i, data) {
		return ErrWrong
	}
	in.m.mu.Lock()
	defer in.m.mu.Unlock()
	in.m.taken[in.b.Root()]++
	off, _ := piece.Span(in.k.size, i)
	copy(in.k.data[off:], data)
	in.k.has.Set(i)
	return nil
}

func (in *memoryIncoming) Done() error {
	in.m.mu.Lock()
	defer in.m.mu.Unlock()
	in.k.done = true
	return nil
}

func (*memoryIncoming) Close() {}

// whole is what is here of a blob, nil if it is not done.
func (m *memory) whole(root piece.Root) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := maps.Clone(m.blobs)[root]; k != nil && k.done {
		return k.data
	}
	return nil
}
