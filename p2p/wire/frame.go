package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFrame caps a frame's payload in bytes: what is larger is split by its sender.
const MaxFrame = 1 << 20

// ErrTooLarge is returned for a frame above the cap, on either side.
var ErrTooLarge = errors.New("frame too large")

// Writer writes frames: four bytes of big-endian length, then the CBOR of one value. It buffers;
// nothing leaves before Flush. It is for one goroutine.
type Writer struct {
	w   *bufio.Writer
	cap int
}

// NewWriter wraps w with a frame cap in bytes; 0 means MaxFrame.
func NewWriter(w io.Writer, limit int) *Writer {
	if limit <= 0 {
		limit = MaxFrame
	}
	return &Writer{w: bufio.NewWriterSize(w, 32<<10), cap: limit}
}

// Write appends one frame to the buffer.
func (w *Writer) Write(v any) error {
	b, err := Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > w.cap {
		return fmt.Errorf("%w: %d bytes, the cap is %d", ErrTooLarge, len(b), w.cap)
	}
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(b)))
	if _, err := w.w.Write(n[:]); err != nil {
		return err
	}
	_, err = w.w.Write(b)
	return err
}

// Flush sends what is buffered.
func (w *Writer) Flush() error { return w.w.Flush() }

// Send is Write and Flush.
func (w *Writer) Send(v any) error {
	if err := w.Write(v); err != nil {
		return err
	}
	return w.Flush()
}

// keepBuffer is the largest payload buffer, in bytes, a Reader holds on to: one big frame must not
// cost a quiet stream its size.
const keepBuffer = 64 << 10

// Reader reads frames written by Writer. It is for one goroutine. A frame that does not decode is
// skipped and the next may be read. An error in the middle of a frame (or a frame above the cap)
// sticks, because where the next one begins is lost; between frames, a passed deadline for one,
// Read may be tried again.
type Reader struct {
	r   *bufio.Reader
	cap int
	buf []byte
	err error
}

// NewReader wraps r with a frame cap in bytes; 0 means MaxFrame.
func NewReader(r io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = MaxFrame
	}
	return &Reader{r: bufio.NewReaderSize(r, min(limit, 32<<10)), cap: limit}
}

// Read decodes the next frame into v, which must be fresh (see Unmarshal). io.EOF means the stream
// ended between frames, io.ErrUnexpectedEOF inside one.
func (r *Reader) Read(v any) error {
	if r.err != nil {
		return r.err
	}
	b, err := r.payload()
	if err != nil {
		return err
	}
	return Unmarshal(b, v)
}

// payload reads one frame's bytes, valid until the next call.
func (r *Reader) payload() ([]byte, error) {
	var n [4]byte
	if got, err := io.ReadFull(r.r, n[:]); err != nil {
		if got > 0 {
			r.err = err
		}
		return nil, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if uint64(size) > uint64(r.cap) {
		r.err = fmt.Errorf("%w: %d bytes announced, the cap is %d", ErrTooLarge, size, r.cap)
		return nil, r.err
	}
	b, err := r.fill(int(size))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		r.err = err
		return nil, err
	}
	return b, nil
}

// fill reads size bytes. Room for a large frame is made as it arrives: announcing one costs the
// reader nothing.
func (r *Reader) fill(size int) ([]byte, error) {
	if size <= keepBuffer {
		if cap(r.buf) < size {
			r.buf = make([]byte, size)
		}
		b := r.buf[:size]
		_, err := io.ReadFull(r.r, b)
		return b, err
	}
	b := make([]byte, keepBuffer)
	for read := 0; ; {
		if _, err := io.ReadFull(r.r, b[read:]); err != nil || len(b) == size {
			return b, err
		}
		read = len(b)
		grown := make([]byte, min(size, 4*read))
		copy(grown, b)
		b = grown
	}
}

// Buffered tells how many bytes wait in memory: 0 is the moment to flush an answer.
func (r *Reader) Buffered() int { return r.r.Buffered() }
