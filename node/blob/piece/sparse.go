package piece

import (
	"bytes"
	"io"
)

// Hole is the size of the blocks of zeros that are left out of files, each at a multiple of it:
// what disks can give back, and not so small that a file falls into pieces.
const Hole = 64 << 10

var zeros [Hole]byte

// Runs calls f for each part of b, which is at off of a file: blocks that are zeros, and what is
// between them.
func Runs(b []byte, off int64, f func(part []byte, off int64, zero bool) error) error {
	for len(b) > 0 {
		n, zero := run(b, off)
		if err := f(b[:n], off, zero); err != nil {
			return err
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// run is how much b begins with of the one or the other.
func run(b []byte, off int64) (n int, zero bool) {
	for n < len(b) {
		k := min(len(b)-n, Hole-int((off+int64(n))%Hole))
		z := k == Hole && bytes.Equal(b[n:n+k], zeros[:])
		if n > 0 && z != zero {
			return n, zero
		}
		n, zero = n+k, z
	}
	return n, zero
}

// Sparse writes to a file that is empty at first, and leaves blocks of zeros out.
type Sparse struct {
	To  io.WriterAt
	end int64 // of what was written
}

// WriteAt implements io.WriterAt. It is called by one goroutine at a time.
func (s *Sparse) WriteAt(b []byte, off int64) (n int, err error) {
	err = Runs(b, off, func(part []byte, off int64, zero bool) error {
		if !zero {
			if _, err := s.To.WriteAt(part, off); err != nil {
				return err
			}
			s.end = max(s.end, off+int64(len(part)))
		}
		n += len(part)
		return nil
	})
	return n, err
}

// End gives the file its size, if it ends with zeros.
func (s *Sparse) End(size int64) error {
	if s.end >= size {
		return nil
	}
	_, err := s.To.WriteAt(zeros[:1], size-1)
	return err
}
