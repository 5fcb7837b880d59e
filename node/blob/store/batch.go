package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/coveyproject/covey/node/blob/piece"
)

// Batch adds blobs that become whole together, by one sync for all. They are leased until Close, so
// that there is time to pin them. Its methods may be called side by side, but for Done and Close.
type Batch struct {
	s   *Store
	own bool

	mu   sync.Mutex
	held map[piece.Root]*blob
	made []made // not whole yet
}

// made is a blob whose bytes are in a file of tmp.
type made struct {
	b     *blob
	size  int64
	file  string
	proof bool // it has a second file
}

// Batch begins one; Close must be called. own: this peer's owner wants these blobs.
func (s *Store) Batch(own bool) *Batch {
	return &Batch{s: s, own: own, held: map[piece.Root]*blob{}}
}

// Add is a Batch of one, which is whole after it, and may go at once if nothing else keeps it.
func (s *Store) Add(ctx context.Context, r io.Reader, own bool) (piece.Root, int64, error) {
	b := s.Batch(own)
	defer b.Close()
	root, n, err := b.Add(ctx, r, -1)
	if err == nil {
		err = b.Done()
	}
	return root, n, err
}

// window is how much is read, hashed and written at once: it stays in the cache of a processor, so
// that hashing beside writing would save no time and cost more.
const window = piece.Size

var windows = sync.Pool{New: func() any { return new([window]byte) }}

// Add reads a blob to its end. expected is how many bytes it will have, for which room is reserved
// at once; -1 if nobody knows, then it is reserved as they come.
func (b *Batch) Add(ctx context.Context, r io.Reader, expected int64) (piece.Root, int64, error) {
	buf := windows.Get().(*[window]byte)
	defer windows.Put(buf)
	n, err := fill(r, buf[:])
	if err == io.EOF {
		root, err := b.add(buf[:n])
		return root, int64(n), err
	}
	if err != nil {
		return piece.Root{}, 0, err
	}
	return b.stream(ctx, r, buf, expected)
}

// fill reads until buf is full; io.EOF: that was the end, also if buf is full.
func fill(r io.Reader, buf []byte) (int, error) {
	n, err := io.ReadFull(r, buf)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// Put adds a blob of at most one piece that others say is root; ErrPiece if it is not.
func (b *Batch) Put(root piece.Root, data []byte) error {
	if len(data) > piece.Size || piece.Sum(data) != root {
		return fmt.Errorf("%s: %w", root, ErrPiece)
	}
	_, err := b.add(data)
	return err
}

// add adds what is in memory.
func (b *Batch) add(data []byte) (piece.Root, error) {
	h := piece.NewHasher()
	_, _ = h.Write(data)
	root, proof, size := h.Sum()
	if b.has(root) {
		return root, nil
	}
	w := writer{b: b, taken: size}
	err := w.begin(costOf(size))
	if err == nil {
		err = w.write(data, 0)
	}
	if err == nil {
		err = w.sparse.End(size)
	}
	return root, w.end(root, proof, size, err)
}

// stream adds what begins with buf.
func (b *Batch) stream(ctx context.Context, r io.Reader, buf *[window]byte, expected int64) (root piece.Root, size int64, err error) {
	w := writer{b: b, taken: math.MaxInt64}
	if err := w.begin(costOf(max(expected, window))); err != nil {
		return root, 0, err
	}
	h := piece.NewHasher()
	for n, last := window, false; err == nil; {
		if err = w.grow(costOf(size + int64(n))); err != nil {
			break
		}
		_, _ = h.Write(buf[:n])
		err = w.write(buf[:n], size)
		size += int64(n)
		if err = cmp.Or(err, ctx.Err()); err != nil || last {
			break
		}
		n, err = fill(r, buf[:])
		if err == io.EOF {
			last, err = true, nil
		}
	}
	root, proof, size := h.Sum()
	if err == nil {
		err = w.sparse.End(size)
	}
	return root, size, w.end(root, proof, size, err)
}

// AddFile adds an open file from its beginning to its end. Where the file system can, it shares the
// bytes with it; what the file is later is no matter of the store's in any case.
func (b *Batch) AddFile(ctx context.Context, f *os.File) (piece.Root, int64, error) {
	return b.file(ctx, f, false)
}

// Take is AddFile of a file that nobody means to write any more: where its bytes cannot be shared,
// the blob is one more name of it, and it cannot be written by its own name either. Somebody who
// does all the same damages the blob, which is found when it is read. One that has several names
// already is copied: somebody else may count on it.
func (b *Batch) Take(ctx context.Context, f *os.File) (piece.Root, int64, error) {
	return b.file(ctx, f, true)
}

func (b *Batch) file(ctx context.Context, f *os.File, take bool) (piece.Root, int64, error) {
	i, err := f.Stat()
	if err != nil {
		return piece.Root{}, 0, err
	}
	if !i.Mode().IsRegular() {
		return piece.Root{}, 0, fmt.Errorf("%s is no regular file", f.Name())
	}
	if i.Size() > window {
		root, n, err := b.clone(ctx, f, i)
		if take && errors.Is(err, errors.ErrUnsupported) && onlyName(i) {
			root, n, err = b.link(ctx, f, i)
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return root, n, err
		}
	}
	return b.Add(ctx, io.NewSectionReader(f, 0, 1<<62), i.Size())
}

// link adds a file as one more name of it, or is errors.ErrUnsupported. It takes no more of the
// disk.
func (b *Batch) link(ctx context.Context, f *os.File, i fs.FileInfo) (piece.Root, int64, error) {
	s := b.s
	w := writer{b: b, name: s.temp(addKind), here: i.Size(), taken: takenAt(i)}
	if err := w.grow(costAt(i.Size(), w.taken)); err != nil {
		return piece.Root{}, 0, err
	}
	err := s.disk.link(f, w.name)
	if err == nil {
		if err = s.disk.chmod(w.name, wholeMode()); err == nil {
			w.f, err = s.disk.open(w.name)
		}
		if err != nil {
			s.discard(w.name)
		}
	}
	if err != nil {
		w.drop()
		return piece.Root{}, 0, fmt.Errorf("link: %w", errors.ErrUnsupported) // copying says what is wrong
	}
	return b.shared(ctx, w)
}

// shared adds what has its bytes already.
func (b *Batch) shared(ctx context.Context, w writer) (piece.Root, int64, error) {
	h := piece.NewHasher()
	_, err := io.Copy(h, &reader{ctx, io.NewSectionReader(w.f, 0, 1<<62)})
	root, proof, size := h.Sum()
	if err == nil {
		err = w.grow(costAt(size, w.taken))
	}
	return root, size, w.end(root, proof, size, err)
}

// clone adds a file without copying its bytes, or is errors.ErrUnsupported.
func (b *Batch) clone(ctx context.Context, f *os.File, i fs.FileInfo) (piece.Root, int64, error) {
	w := writer{b: b, taken: takenAt(i)}
	if err := w.begin(costAt(i.Size(), w.taken)); err != nil {
		return piece.Root{}, 0, err
	}
	if err := w.f.clone(f); err != nil {
		w.drop()
		return piece.Root{}, 0, fmt.Errorf("clone: %w", errors.ErrUnsupported) // copying says what is wrong
	}
	return b.shared(ctx, w)
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// has tells whether a blob is in the batch, or whole in the store: then it is leased. A stored copy
// is read for that, since whoever adds one again counts on it.
func (b *Batch) has(root piece.Root) bool {
	b.mu.Lock()
	held := b.held[root] != nil
	b.mu.Unlock()
	if held {
		return true
	}
	if !b.s.Have(root).Whole || !b.s.Intact(root) {
		return false
	}
	blob, _, err := b.s.take(root, true)
	return err == nil && b.hold(blob)
}

// hold keeps a leased blob as one of the batch, or gives the lease up if it is one already.
func (b *Batch) hold(blob *blob) bool {
	b.mu.Lock()
	had := b.held[blob.root] != nil
	b.held[blob.root] = blob
	b.mu.Unlock()
	if had {
		b.s.release(blob)
	}
	return true
}

// writer writes one blob to a file of tmp.
type writer struct {
	b        *Batch
	name     string
	f        file
	reserved int64
	here     int64 // bytes that are on the disk already
	taken    int64 // how many the disk takes for it, if that is less than it has
	sparse   piece.Sparse
}

// write writes a part, but for holes.
func (w *writer) write(b []byte, off int64) error {
	w.sparse.To = w.f
	_, err := w.sparse.WriteAt(b, off)
	return err
}

func (w *writer) begin(cost int64) (err error) {
	if err := w.grow(cost); err != nil {
		return err
	}
	w.name = w.b.s.temp(addKind)
	if w.f, err = w.b.s.disk.create(w.name, wholeMode()); err != nil {
		w.drop()
		return w.b.s.full(err, cost)
	}
	return nil
}

// grow reserves what is missing.
func (w *writer) grow(cost int64) error {
	more := cost - w.reserved
	if more <= 0 {
		return nil
	}
	s := w.b.s
	s.mu.Lock()
	defer s.unlock()
	if err := s.reserveFor(more, w.here, w.b.own); err != nil {
		var full *NoRoom
		if errors.As(err, &full) { // what was written so far is needed too
			full.Needed, full.Free = cost, full.Free+w.reserved
		}
		return err
	}
	w.reserved = cost
	return nil
}

// drop gives up the file and the room.
func (w *writer) drop() {
	if w.f != nil {
		_ = w.f.Close()
		w.b.s.discard(w.name)
	}
	s := w.b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shelf.giveBack(w.reserved)
	w.f, w.reserved = nil, 0
}

// end makes what was written a blob of the batch, unless there was an error.
func (w *writer) end(root piece.Root, proof piece.Proof, size int64, err error) error {
	s := w.b.s
	if err == nil && w.f != nil && len(proof) > 0 {
		var blob piece.Blob
		if blob, err = piece.Open(root, size, proof); err == nil {
			err = s.replace(w.name+proofEnd, encodeProof(blob), wholeMode())
		}
	}
	if err == nil {
		err = w.f.Close()
	}
	if err != nil {
		needed := max(w.reserved, costAt(size, w.taken))
		if w.f != nil {
			s.discard(w.name + proofEnd)
		}
		w.drop()
		return s.full(err, needed)
	}
	w.f = nil
	if w.b.has(root) { // what was read to its end is known only now
		s.discard(w.name)
		s.discard(w.name + proofEnd)
		w.drop()
		return nil
	}
	w.keep(root, made{size: size, file: w.name, proof: len(proof) > 0})
	return nil
}

// keep leases the blob that was written.
func (w *writer) keep(root piece.Root, m made) {
	s, cost := w.b.s, costAt(m.size, w.taken)
	s.mu.Lock()
	m.b = s.shelf.blobs[root]
	switch {
	case m.b == nil:
		m.b = s.shelf.add(root, cost)
		s.shelf.giveBack(w.reserved - cost)
	case m.b.cost < cost:
		s.shelf.lease(m.b)
		s.shelf.giveBack(w.reserved - (cost - m.b.cost))
		s.shelf.resize(m.b, cost)
	default:
		s.shelf.lease(m.b)
		s.shelf.giveBack(w.reserved)
	}
	s.mu.Unlock()
	b := w.b
	b.mu.Lock()
	b.made = append(b.made, m)
	b.mu.Unlock()
	b.hold(m.b)
}

// Done makes all that was added whole. After it, it is on the disk, whatever happens to this
// machine.
func (b *Batch) Done() error {
	if err := b.done(); err != nil {
		return fmt.Errorf("keep: %w", b.s.full(err, 0))
	}
	return nil
}

func (b *Batch) done() error {
	s := b.s
	var names []string
	for _, m := range b.made {
		names = append(names, m.file)
	}
	if len(names) > 0 {
		if err := s.disk.sync(names); err != nil {
			return err
		}
	}
	for len(b.made) > 0 {
		if err := b.land(); err != nil {
			return err
		}
	}
	return s.settled(slices.Collect(maps.Values(b.held)))
}

// landAtOnce bounds how long the lock is held.
const landAtOnce = 32

// land gives some blobs their names.
func (b *Batch) land() error {
	b.s.mu.Lock()
	defer b.s.unlock()
	for range min(landAtOnce, len(b.made)) {
		m := b.made[0]
		if m.b.whole { // somebody else was faster
			b.s.trash = append(b.s.trash, m.file, m.file+proofEnd)
		} else if err := b.s.land(m.b, m.size, m.file, m.proof); err != nil {
			return err
		}
		b.made = b.made[1:]
	}
	return nil
}

// Close gives up the leases, and what Done has not made whole.
func (b *Batch) Close() {
	for _, m := range b.made {
		b.s.discard(m.file)
		b.s.discard(m.file + proofEnd)
	}
	b.made = nil
	b.s.release(slices.Collect(maps.Values(b.held))...)
	clear(b.held)
}
