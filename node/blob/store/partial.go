package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/coveyproject/covey/node/blob/piece"
)

// partial is a blob of which some pieces are missing. Its lock moving is taken before Store's, and
// held for writing by whoever changes what is claimed of the blob, or its files.
type partial struct {
	moving  sync.RWMutex
	users   int  // Fetches that are open
	checked bool // what is claimed to be here was checked by this process
	over    bool // it has become whole, or could not be begun
	data    file // nil while there are no users

	bits  sync.Mutex // innermost
	blob  piece.Blob // written under both locks: either is enough to read it
	have  *piece.Bitmap
	marks file // the map; nil while there are no users
}

func newPartial(blob piece.Blob, have *piece.Bitmap) *partial {
	return &partial{blob: blob, have: have}
}

// claim is the blob's size and which pieces are here.
func (p *partial) claim() (int64, *piece.Bitmap) {
	p.bits.Lock()
	defer p.bits.Unlock()
	return p.blob.Size(), copyOf(p.have)
}

func copyOf(m *piece.Bitmap) *piece.Bitmap {
	c, err := piece.ParseBitmap(m.Len(), m.Bytes())
	if err != nil { // never: it was written by a bitmap
		return piece.NewBitmap(m.Len())
	}
	return c
}

func (p *partial) has(i int) bool {
	p.bits.Lock()
	defer p.bits.Unlock()
	return p.have.Has(i)
}

func (p *partial) full() bool {
	p.bits.Lock()
	defer p.bits.Unlock()
	return p.have.Full()
}

// mark notes, in memory and on the disk, whether a piece is here.
func (p *partial) mark(i int, here bool) error {
	p.bits.Lock()
	defer p.bits.Unlock()
	if here {
		p.have.Set(i)
	} else {
		p.have.Clear(i)
	}
	if p.marks == nil {
		return nil // whoever takes it up checks it again
	}
	_, err := p.marks.WriteAt([]byte{mapByte(p.have, i)}, mapOffset(i))
	return err
}

// enter makes ready for a fetch of the blob that want claims it is. It is called with moving held
// for writing.
func (p *partial) enter(ctx context.Context, s *Store, want piece.Blob) (err error) {
	if p.users > 0 {
		return p.reclaim(s, want)
	}
	defer func() {
		if err != nil {
			p.leave()
		}
	}()
	name := partName(want.Root())
	p.data, err = s.disk.write(name)
	if errors.Is(err, fs.ErrPermission) { // it was about to get its name as a whole one
		if err = s.disk.chmod(name, writeMode); err == nil {
			p.data, err = s.disk.write(name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return p.begin(s, want)
	}
	if err != nil {
		return err
	}
	marks, err := s.disk.write(name + mapEnd)
	if errors.Is(err, fs.ErrNotExist) {
		p.setClaim(p.blob, piece.NewBitmap(p.blob.Pieces()))
		err = p.rewrite(s)
	} else if err == nil {
		p.setMarks(marks)
	}
	if err == nil && !p.checked {
		err = p.check(ctx)
	}
	if err == nil {
		err = p.reclaim(s, want)
	}
	return err
}

// begin makes the files.
func (p *partial) begin(s *Store, want piece.Blob) (err error) {
	p.setClaim(want, piece.NewBitmap(want.Pieces()))
	name := partName(want.Root())
	if err := s.replace(name+proofEnd, encodeProof(want), wholeMode()); err != nil {
		return err
	}
	if p.data, err = s.disk.create(name, writeMode); err != nil {
		return err
	}
	if err := p.data.allocate(want.Size()); err != nil {
		return err
	}
	err = p.rewrite(s)
	p.checked = err == nil
	return err
}

// rewrite writes the map anew.
func (p *partial) rewrite(s *Store) error {
	name := partName(p.blob.Root()) + mapEnd
	_, have := p.claim()
	p.setMarks(nil)
	if err := s.replace(name, encodeMap(have), writeMode); err != nil {
		return err
	}
	f, err := s.disk.write(name)
	if err == nil {
		p.setMarks(f)
	}
	return err
}

// setMarks exchanges the file of the map.
func (p *partial) setMarks(f file) {
	p.bits.Lock()
	defer p.bits.Unlock()
	if p.marks != nil {
		_ = p.marks.Close()
	}
	p.marks = f
}

func (p *partial) setClaim(blob piece.Blob, have *piece.Bitmap) {
	p.bits.Lock()
	defer p.bits.Unlock()
	p.blob, p.have = blob, have
}

// check reads what is claimed to be here: the map may be ahead of the bytes where the machine lost
// its power, and somebody may have been at the file.
func (p *partial) check(ctx context.Context) error {
	if n, err := p.data.size(); err != nil {
		return err
	} else if n != p.blob.Size() {
		if err := p.data.allocate(p.blob.Size()); err != nil {
			return err
		}
	}
	var buf []byte
	for i := range p.blob.Pieces() {
		if !p.has(i) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		ok, err := readPiece(p.data, p.blob, i, &buf)
		if err != nil {
			return err
		}
		if !ok {
			if err := p.mark(i, false); err != nil {
				return err
			}
		}
	}
	p.checked = true
	return nil
}

// readPiece reads a piece into buf, which it makes long enough, and tells whether it is right.
func readPiece(f io.ReaderAt, blob piece.Blob, i int, buf *[]byte) (bool, error) {
	off, n := piece.Span(blob.Size(), i)
	*buf = slices.Grow((*buf)[:0], n)[:n]
	k, err := f.ReadAt(*buf, off)
	if k < n {
		if err == nil || unreadable(err) {
			return false, nil
		}
		return false, err
	}
	return blob.Check(i, *buf), nil
}

// reclaim compares what is claimed of a blob now with what was. Whose last piece is here has its
// size proven; before that, the later claim takes over, as the one before may have been a lie.
func (p *partial) reclaim(s *Store, want piece.Blob) error {
	same := slices.Equal(want.Proof(), p.blob.Proof())
	if want.Size() == p.blob.Size() && same {
		return nil
	}
	if p.has(p.blob.Pieces() - 1) {
		return ErrSize
	}
	have := piece.NewBitmap(want.Pieces())
	if same { // but for the last piece all are as they were
		_, have = p.claim()
	}
	p.setClaim(want, have)
	if err := s.replace(partName(want.Root())+proofEnd, encodeProof(want), wholeMode()); err != nil {
		return err
	}
	if err := p.data.allocate(want.Size()); err != nil {
		return err
	}
	return p.rewrite(s)
}

// leave closes the files.
func (p *partial) leave() {
	if p.data != nil {
		_ = p.data.Close()
	}
	p.data = nil
	p.setMarks(nil)
}
