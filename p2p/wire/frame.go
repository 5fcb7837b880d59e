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

// Writer writes frames: four bytes of big-endian length, then the CBOR of one value. It buffers; nothing leaves before Flush.
// It is for one goroutine.
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

// Reader reads frames written by Writer. It is for one goroutine.
type Reader struct {
	r   *bufio.Reader
	cap int
	buf []byte
}

// NewReader wraps r with a frame cap in bytes; 0 means MaxFrame.
func NewReader(r io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = MaxFrame
	}
	return &Reader{r: bufio.NewReaderSize(r, 32<<10), cap: limit}
}

// Read decodes the next frame into v. io.EOF means the stream ended between frames.
func (r *Reader) Read(v any) error {
	var n [4]byte
	if _, err := io.ReadFull(r.r, n[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(n[:])
	if uint64(size) > uint64(r.cap) {
		return fmt.Errorf("%w: %d bytes announced, the cap is %d", ErrTooLarge, size, r.cap)
	}
	if cap(r.buf) < int(size) {
		r.buf = make([]byte, size)
	}
	b := r.buf[:size]
	if _, err := io.ReadFull(r.r, b); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	return Unmarshal(b, v)
}

// Buffered tells how many bytes wait in memory: 0 is the moment to flush an answer.
func (r *Reader) Buffered() int { return r.r.Buffered() }
