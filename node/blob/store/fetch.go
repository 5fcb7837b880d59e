package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/coveyproject/covey/node/blob/piece"
)

// Fetch is a blob that is being fetched. Its methods may be called side by side, but for Close,
// which is the last.
type Fetch struct {
	s    *Store
	b    *blob
	p    *partial // nil: it was whole
	blob piece.Blob
	once sync.Once
}

// Begin takes up the fetch of a blob, or begins it: then room for all of it is reserved, or it is
// NoRoom. own: this peer's owner wants it. The blob is leased until Close. Several may fetch one at
// the same time. What an earlier fetch has left is read and checked first.
//
// A claim of another size or proof than an earlier one takes over, as long as the last piece, which
// alone proves the size, is not here; it is ErrSize after that.
func (s *Store) Begin(ctx context.Context, want piece.Blob, own bool) (*Fetch, error) {
	for looked := false; ; {
		b, p, err := s.claim(want, own)
		if errors.Is(err, ErrSize) && !looked && !s.Intact(want.Root()) {
			looked = true // it was cut off
			continue
		}
		if err != nil {
			return nil, err
		}
		if p == nil {
			return &Fetch{s: s, b: b, blob: want}, nil
		}
		p.moving.Lock()
		over := p.over
		if !over {
			err = p.enter(ctx, s, want)
			if err == nil {
				p.users++
			}
			s.entered(b, p)
		}
		p.moving.Unlock()
		if over || err != nil {
			s.release(b)
		}
		if err != nil {
			return nil, fmt.Errorf("fetch %s: %w", want.Root(), s.full(err, want.Size()))
		}
		if !over {
			return &Fetch{s: s, b: b, p: p, blob: want}, nil
		}
	}
}

// claim leases a blob that is to be fetched; room for it is reserved. The partial is nil if it is
// whole.
func (s *Store) claim(want piece.Blob, own bool) (*blob, *partial, error) {
	s.mu.Lock()
	defer s.unlock()
	cost := costOf(want.Size())
	b := s.shelf.blobs[want.Root()]
	switch {
	case b == nil:
		if err := s.reserve(cost, own); err != nil {
			return nil, nil, err
		}
		b = s.shelf.add(want.Root(), cost)
	case b.whole && b.size != want.Size():
		return nil, nil, fmt.Errorf("%s: %w: %d bytes, not %d", want.Root(), ErrSize, b.size, want.Size())
	default:
		s.shelf.lease(b)
		if more := cost - b.cost; more > 0 && !b.whole { // a whole one that takes less has holes
			if err := s.reserve(more, own); err != nil {
				s.shelf.release(b)
				return nil, nil, err
			}
			s.shelf.resize(b, cost)
		}
	}
	if b.whole {
		return b, nil, nil
	}
	if b.part == nil {
		b.part = newPartial(want, piece.NewBitmap(want.Pieces()))
	}
	return b, b.part, nil
}

// entered says what a partial takes, now that its claim is settled; one that could not even be
// begun is forgotten. The partial's lock is held.
func (s *Store) entered(b *blob, p *partial) {
	s.mu.Lock()
	defer s.unlock()
	if b.part != p {
		return
	}
	if p.users == 0 && p.data == nil && !p.checked {
		if _, have := p.claim(); have.Have() == 0 {
			p.over = true
			if err := s.erasePart(b); err != nil {
				s.log.Warn("what could not be begun could not be removed", "blob", b.root, "err", err)
			}
			return
		}
	}
	if size, _ := p.claim(); costOf(size) < b.cost && !b.whole {
		s.shelf.resize(b, costOf(size))
	}
}

// Pieces is which of the blob's pieces are here.
func (f *Fetch) Pieces() *piece.Bitmap {
	if f.whole() {
		return piece.FullBitmap(f.blob.Pieces())
	}
	_, have := f.p.claim()
	return have
}

// whole tells whether it is whole now: somebody may have added it.
func (f *Fetch) whole() bool {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.p == nil || f.b.whole
}

// Piece takes the i-th piece. Bytes that are not that piece are ErrPiece, and change nothing.
func (f *Fetch) Piece(i int, data []byte) error {
	p := f.p
	if p == nil {
		return nil
	}
	p.moving.RLock()
	defer p.moving.RUnlock()
	if p.over || p.has(i) {
		return nil
	}
	if !p.blob.Check(i, data) {
		return fmt.Errorf("%s, MiB %d: %w", p.blob.Root(), i, ErrPiece)
	}
	if p.data == nil {
		return errUnready
	}
	off, _ := piece.Span(p.blob.Size(), i)
	err := piece.Runs(data, off, func(part []byte, off int64, zero bool) (err error) {
		if zero {
			return p.data.zero(off, int64(len(part)))
		}
		_, err = p.data.WriteAt(part, off)
		return err
	})
	if err == nil {
		err = p.mark(i, true)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", p.blob.Root(), f.s.full(err, int64(len(data))))
	}
	return nil
}

// ErrPieces is returned by Done while pieces are missing.
var ErrPieces = errors.New("not all pieces are here")

// errUnready is for what can only go on from another Begin.
var errUnready = errors.New("the disk has failed: begin again")

// Done makes the blob whole once all pieces are here. After it, it is on the disk, whatever
// happens to this machine.
func (f *Fetch) Done() error {
	err := f.finish()
	if err == nil {
		err = f.s.settled([]*blob{f.b})
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", f.blob.Root(), f.s.full(err, 0))
	}
	return nil
}

func (f *Fetch) finish() error {
	p := f.p
	if f.whole() {
		return nil
	}
	if over, err := f.sync(); over || err != nil {
		return err
	}
	p.moving.Lock()
	defer p.moving.Unlock()
	switch {
	case p.over:
		return nil
	case !p.full(): // one was found to be rotten
		return ErrPieces
	}
	p.leave() // not every system renames what is open
	if err := f.land(); err != nil {
		name := partName(f.blob.Root())
		_ = f.s.disk.chmod(name, writeMode)
		p.data, _ = f.s.disk.write(name)
		return err
	}
	p.over = true
	return nil
}

// land gives the blob its name.
func (f *Fetch) land() error {
	s, name, size := f.s, partName(f.blob.Root()), f.p.blob.Size()
	s.mu.Lock()
	defer s.unlock()
	if f.b.whole { // somebody has added it meanwhile
		return nil
	}
	if err := s.disk.chmod(name, wholeMode()); err != nil {
		return err
	}
	return s.land(f.b, size, name, piece.Entries(size) > 0)
}

// sync brings the pieces to the disk; over: there is nothing left to do. Where that fails nobody
// knows what is on the disk, and the system may have thrown away what was to be written: all has to
// come again.
func (f *Fetch) sync() (over bool, err error) {
	p := f.p
	p.moving.RLock()
	over = p.over
	switch {
	case over:
	case !p.full():
		err = ErrPieces
	case p.data == nil:
		err = errUnready
	default:
		err = p.data.sync()
	}
	p.moving.RUnlock()
	if err == nil || errors.Is(err, ErrPieces) || errors.Is(err, errUnready) {
		return over, err
	}
	p.moving.Lock()
	defer p.moving.Unlock()
	if !p.over {
		p.setClaim(p.blob, piece.NewBitmap(p.blob.Pieces()))
		err = errors.Join(err, p.rewrite(f.s))
	}
	return false, err
}

// Close ends the fetch. What is here of the blob stays, as long as there is room.
func (f *Fetch) Close() {
	f.once.Do(func() {
		if p := f.p; p != nil {
			p.moving.Lock()
			if p.users--; p.users == 0 {
				p.leave()
			}
			p.moving.Unlock()
		}
		f.s.release(f.b)
	})
}
