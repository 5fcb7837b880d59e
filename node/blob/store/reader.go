package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"github.com/coveyproject/covey/node/blob/piece"
)

// Reader reads a blob, or what is here of one. It is leased until Close. The other methods may be
// called side by side.
type Reader struct {
	s    *Store
	b    *blob
	p    *partial // nil: it is whole
	size int64    // of a whole one, as its file has it
	f    file
	once sync.Once

	blob piece.Blob

	mu  sync.Mutex
	at  int // the piece that is in buf; -1: none
	buf []byte
}

// Reader opens a blob of which something is here, else it is ErrAbsent. Its size is proven then,
// but for a partial one; a small one was read.
func (s *Store) Reader(root piece.Root) (*Reader, error) {
	for {
		b, is, err := s.take(root, false)
		if err != nil {
			return nil, err
		}
		r := &Reader{s: s, b: b, size: is.size, at: -1}
		again, err := r.open(is.whole)
		if err == nil && !again {
			if err = r.prove(); err == nil {
				return r, nil
			}
		}
		if r.f != nil {
			_ = r.f.Close()
		}
		s.release(b)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", root, err)
		}
	}
}

// open opens the file; again: the blob has become whole, or is not any more.
func (r *Reader) open(whole bool) (again bool, err error) {
	s, root := r.s, r.b.root
	if whole {
		r.f, err = s.disk.open(wholeName(root))
	} else {
		s.mu.Lock()
		r.p = r.b.part
		s.mu.Unlock()
		if r.p == nil {
			return true, nil
		}
		r.p.moving.RLock()
		defer r.p.moving.RUnlock()
		if r.p.over {
			return true, nil
		}
		r.blob = r.p.blob
		r.f, err = s.disk.open(partName(root))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true, s.missing(r.b, r.p)
	}
	return false, err
}

// missing notes that a file is not where it should be: somebody has removed it.
func (s *Store) missing(b *blob, p *partial) error {
	s.mu.Lock()
	defer s.unlock()
	switch {
	case p == nil && b.whole:
		f, err := s.disk.open(wholeName(b.root))
		if err == nil { // it has come back meanwhile
			return f.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.log.Error("a file of the store was removed by somebody else", "blob", b.root)
		s.damaged.Set()
		return s.eraseWhole(b)
	case p != nil && b.part == p:
		return fmt.Errorf("%s: %w", b.root, ErrAbsent) // its fetch is about to begin, or to be given up
	}
	return nil
}

// Size is how many bytes the blob has; of a partial one, what was claimed.
func (r *Reader) Size() int64 { return r.blob.Size() }

// Blob is what it is checked with, for whoever fetches it.
func (r *Reader) Blob() piece.Blob { return r.blob }

// ReadAt reads bytes that were checked. Where they are not what they were it is Rot, where they are
// not here yet ErrAbsent. The last piece is kept, so that small reads of one cost one check.
func (r *Reader) ReadAt(b []byte, off int64) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	for n < len(b) {
		if off >= r.blob.Size() {
			return n, io.EOF
		}
		i := int(off / piece.Size)
		if i != r.at {
			if err := r.load(i); err != nil {
				return n, err
			}
		}
		k := copy(b[n:], r.buf[off%piece.Size:])
		n += k
		off += int64(k)
	}
	return n, nil
}

// load reads a piece into buf and checks it.
func (r *Reader) load(i int) error {
	if r.p != nil && !r.p.has(i) {
		return fmt.Errorf("%s, MiB %d: %w", r.b.root, i, ErrAbsent)
	}
	r.at = -1
	ok, err := readPiece(r.f, r.blob, i, &r.buf)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.b.root, err)
	}
	if !ok {
		r.s.rotten(r.b, r.p, r.blob, i)
		return &Rot{r.b.root, i}
	}
	r.at = i
	return nil
}

// Verify checks a piece anew, whatever was read before.
func (r *Reader) Verify(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < 0 || i >= r.blob.Pieces() {
		return fs.ErrInvalid
	}
	return r.load(i)
}

// Raw reads bytes that nobody has checked, for whoever does it elsewhere.
func (r *Reader) Raw(b []byte, off int64) (int, error) {
	if r.p != nil && len(b) > 0 {
		for i := off / piece.Size; i <= (off+int64(len(b))-1)/piece.Size; i++ {
			if !r.p.has(int(i)) {
				return 0, fmt.Errorf("%s, MiB %d: %w", r.b.root, i, ErrAbsent)
			}
		}
	}
	return r.f.ReadAt(b, off)
}

// Close gives up the lease.
func (r *Reader) Close() error {
	var err error
	r.once.Do(func() {
		err = r.f.Close()
		r.s.release(r.b)
	})
	return err
}

// prove finds the proof of a whole blob: beside it, or by reading all of it.
func (r *Reader) prove() (err error) {
	if r.p != nil {
		return nil
	}
	root, size := r.b.root, r.size
	if piece.Entries(size) == 0 {
		if r.blob, err = piece.Open(root, size, nil); err != nil {
			return err
		}
		return r.load(0)
	}
	data, err := r.s.readAll(wholeName(root)+proofEnd, maxProof)
	if err == nil {
		r.blob, err = decodeProof(root, data)
	}
	switch {
	case err == nil && r.blob.Size() != size: // the file was cut off, or something was added to it
		last := r.blob.Pieces() - 1
		r.s.rotten(r.b, nil, r.blob, last)
		return &Rot{root, last}
	case err == nil:
		return nil
	}
	h := piece.NewHasher()
	if _, err := io.Copy(h, io.NewSectionReader(r.f, 0, size)); err != nil && !unreadable(err) {
		return fmt.Errorf("read %s: %w", root, err)
	}
	is, proof, n := h.Sum()
	if is != root {
		r.s.rotten(r.b, nil, piece.Blob{}, -1)
		return &Rot{root, -1}
	}
	if r.blob, err = piece.Open(root, n, proof); err != nil {
		return err
	}
	if err := r.s.replace(wholeName(root)+proofEnd, encodeProof(r.blob), wholeMode()); err != nil {
		r.s.log.Debug("a proof is not beside its blob", "blob", root, "err", err)
	}
	return nil
}

// unreadable tells whether an error means that these bytes of a file are lost.
func unreadable(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EIO)
}

// rotten is told that a piece is not what it was. Of a whole blob the rest is kept as a partial
// one. Its bytes are looked at once more first: another copy may have taken the place of that which
// was read.
func (s *Store) rotten(b *blob, p *partial, blob piece.Blob, i int) {
	if p != nil {
		if err := p.mark(i, false); err != nil {
			s.log.Warn("the map of a partial blob could not be written", "blob", b.root, "err", err)
		}
		return
	}
	s.mu.Lock()
	defer s.unlock()
	if !b.whole || i >= 0 && s.isRight(blob, i) {
		return
	}
	s.log.Error("a stored file is damaged", "blob", b.root, "piece", i)
	s.damaged.Set()
	if i < 0 || blob.Pieces() == 1 || b.part != nil || s.demote(b, blob, i) != nil {
		if err := s.eraseWhole(b); err != nil {
			s.log.Error("a damaged file could not be removed", "blob", b.root, "err", err)
			b.whole, b.safe = false, false // and is not read again, at least
		}
	}
}

func (s *Store) isRight(blob piece.Blob, i int) bool {
	f, err := s.disk.open(wholeName(blob.Root()))
	if err != nil {
		return false
	}
	defer f.Close()
	if n, err := f.size(); err != nil || n != blob.Size() {
		return false
	}
	var buf []byte
	ok, err := readPiece(f, blob, i, &buf)
	return ok && err == nil
}

// demote makes a whole blob a partial one without its i-th piece. The lock is held.
func (s *Store) demote(b *blob, blob piece.Blob, i int) error {
	have := piece.FullBitmap(blob.Pieces())
	have.Clear(i)
	whole, part := wholeName(b.root), partName(b.root)
	if err := s.replace(part+mapEnd, encodeMap(have), writeMode); err != nil {
		return err
	}
	if err := s.replace(part+proofEnd, encodeProof(blob), wholeMode()); err != nil {
		return err
	}
	if err := s.disk.chmod(whole, writeMode); err != nil {
		return err
	}
	if err := s.disk.rename(whole, part); err != nil {
		return err
	}
	s.discard(whole + proofEnd)
	b.whole, b.safe, b.part = false, false, newPartial(blob, have)
	return nil
}

// Intact reports whether a blob is whole, and reads all of it for that; one that is found to be
// rotten or removed is whole no more.
func (s *Store) Intact(root piece.Root) bool {
	r, err := s.Reader(root)
	if err != nil {
		return false
	}
	defer r.Close()
	for i := range r.blob.Pieces() {
		if r.Verify(i) != nil {
			return false
		}
	}
	return r.p == nil
}
