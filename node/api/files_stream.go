package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/coveyproject/covey/node/blob/piece"
)

// What is put and what is got travels as JSON lines; the bytes that a line announces follow it as
// they are.
const (
	maxFileLine  = 64 << 10
	maxFileBytes = piece.Size // that one line of an answer announces
)

// PutBlob is a line of what is put, before the last one: a blob, of which the bytes follow if they
// are sent.
type PutBlob struct {
	Blob piece.Root `json:"blob"`
	Size int64      `json:"size"`
	Sent bool       `json:"sent,omitempty"`
	Path string     `json:"path,omitempty"` // for people
}

// putLine is either.
type putLine struct {
	*PutBlob
	End *PutEnd `json:"end,omitempty"`
}

// PutWriter writes what is put. After an error nothing more is written.
type PutWriter struct{ w *bufio.Writer }

// NewPutWriter begins to write it.
func NewPutWriter(w io.Writer) *PutWriter { return &PutWriter{bufio.NewWriterSize(w, fileBuffer)} }

// fileBuffer is how much is read or written at once, in bytes.
const fileBuffer = 256 << 10

// Blob says that a blob is here already, or sends its bytes, of which r must have Size.
func (p *PutWriter) Blob(b PutBlob, r io.Reader) error {
	b.Sent = r != nil
	if err := p.line(putLine{PutBlob: &b}); err != nil || r == nil {
		return err
	}
	n, err := io.CopyN(p.w, r, b.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("it ended after %d bytes of %d", n, b.Size)
	}
	return err
}

// End says what it was; nothing follows.
func (p *PutWriter) End(e PutEnd) error {
	if err := p.line(putLine{End: &e}); err != nil {
		return err
	}
	return p.w.Flush()
}

func (p *PutWriter) line(v putLine) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = p.w.Write(append(b, '\n'))
	return err
}

// PutReader reads what is put.
type PutReader struct {
	End  PutEnd // what it was, after io.EOF
	r    *bufio.Reader
	left io.LimitedReader // bytes of the last blob
	err  error
}

// NewPutReader begins to read it.
func NewPutReader(r io.Reader) *PutReader {
	b := bufio.NewReaderSize(r, maxFileLine)
	return &PutReader{r: b, left: io.LimitedReader{R: b}}
}

// Next is the next blob, with its bytes if they were sent, which may be read until the next call.
// The end is io.EOF; what is cut off is another error.
func (p *PutReader) Next() (PutBlob, io.Reader, error) {
	if p.err != nil {
		return PutBlob{}, nil, p.err
	}
	b, r, err := p.next()
	p.err = err
	return b, r, err
}

func (p *PutReader) next() (PutBlob, io.Reader, error) {
	if _, err := io.Copy(io.Discard, &p.left); err != nil {
		return PutBlob{}, nil, err
	}
	var l putLine
	switch err := readLine(p.r, &l); {
	case errors.Is(err, io.EOF) || p.left.N > 0:
		return PutBlob{}, nil, io.ErrUnexpectedEOF
	case err != nil:
		return PutBlob{}, nil, err
	case (l.PutBlob == nil) == (l.End == nil) || l.PutBlob != nil && (l.Size < 0 || l.Size > piece.MaxSize):
		return PutBlob{}, nil, errFileLine
	case l.End != nil:
		p.End = *l.End
		return PutBlob{}, nil, io.EOF
	case !l.Sent:
		return *l.PutBlob, nil, nil
	}
	p.left.N = l.Size
	return *l.PutBlob, &p.left, nil
}

var errFileLine = Errorf(Usage, "cannot read what comes: a line is not as it should be; is this `peer` of another version than the daemon? see `peer version`")

// readLine reads a line of bounded length. It is io.EOF only between lines.
func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return errFileLine
	case errors.Is(err, io.EOF) && len(line) > 0:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	if json.Unmarshal(line, v) != nil {
		return errFileLine
	}
	return nil
}

// fileLine is a line of what is got.
type fileLine struct {
	Blob  *piece.Root `json:"blob,omitempty"` // that begins here
	Size  int64       `json:"size,omitempty"`
	Bytes int         `json:"bytes,omitempty"` // of the blob that began last; they follow
	Fetch *Fetching   `json:"fetch,omitempty"`
	End   bool        `json:"end,omitempty"`
	Error *Error      `json:"error,omitempty"`
}

// FileWriter writes what is got. After an error nothing more is written.
type FileWriter struct {
	w       *bufio.Writer
	to      http.ResponseWriter
	started bool
}

func newFileWriter(to http.ResponseWriter) *FileWriter {
	return &FileWriter{w: bufio.NewWriterSize(to, 64<<10), to: to}
}

// Blob begins one.
func (f *FileWriter) Blob(root piece.Root, size int64) error {
	return f.line(fileLine{Blob: &root, Size: size})
}

// Bytes writes bytes of the blob that began last, a piece at most.
func (f *FileWriter) Bytes(b []byte) error {
	err := f.line(fileLine{Bytes: len(b)})
	if err == nil {
		_, err = f.w.Write(b)
	}
	return err
}

// Fetching says how far files have come, and sends what was written before.
func (f *FileWriter) Fetching(p Fetching) error {
	if err := f.line(fileLine{Fetch: &p}); err != nil {
		return err
	}
	return f.Flush()
}

// Flush sends what was written before.
func (f *FileWriter) Flush() error {
	if err := f.w.Flush(); err != nil || !f.started {
		return err
	}
	return http.NewResponseController(f.to).Flush()
}

func (f *FileWriter) line(l fileLine) error {
	if !f.started {
		f.started = true
		f.to.Header().Set("Content-Type", "application/octet-stream")
	}
	b, err := json.Marshal(l)
	if err == nil {
		_, err = f.w.Write(append(b, '\n'))
	}
	return err
}

func (f *FileWriter) end(err error) {
	if err != nil && !f.started {
		fail(f.to, err)
		return
	}
	if f.line(fileLine{End: err == nil, Error: AsError(err)}) == nil {
		_ = f.Flush() // the client has gone: nobody to tell
	}
}

// FileReader reads what is got.
type FileReader struct {
	// Heard is called with how far files have come, from within Next and Read; it may be nil.
	Heard func(Fetching)

	r    *bufio.Reader
	body io.Closer
	lost func(error) error // what an error of the connection means
	size int64             // of the blob that is open
	read int64
	left int64     // bytes of the last line
	next *fileLine // begins another blob, or is the end
	err  error
}

// NewFileReader begins to read it, from an answer's body. lost says what an error of the connection
// means.
func NewFileReader(body io.ReadCloser, lost func(error) error) *FileReader {
	return &FileReader{r: bufio.NewReaderSize(body, fileBuffer), body: body, lost: lost}
}

// Next begins the next blob, whatever is left of the one before. The end is io.EOF.
func (f *FileReader) Next() (root piece.Root, size int64, err error) {
	for f.next == nil && f.err == nil {
		if _, f.err = f.r.Discard(int(f.left)); f.err != nil {
			break
		}
		f.read, f.left = f.read+f.left, 0
		f.err = f.line()
	}
	if f.err != nil {
		return root, 0, f.fail()
	}
	l := f.next
	f.next = nil
	f.size, f.read = l.Size, 0
	return *l.Blob, l.Size, nil
}

// Read reads the blob that began last.
func (f *FileReader) Read(b []byte) (int, error) {
	for f.left == 0 {
		if f.err == nil && f.next == nil && f.read < f.size {
			f.err = f.line()
		}
		switch {
		case f.left > 0:
		case f.read == f.size:
			return 0, io.EOF
		case f.err == nil && f.next != nil, errors.Is(f.err, io.EOF): // it was not all
			return 0, errFileLine
		case f.err != nil:
			return 0, f.fail()
		}
	}
	n, err := f.r.Read(b[:min(int64(len(b)), f.left)])
	f.left -= int64(n)
	f.read += int64(n)
	if err != nil {
		f.err = err
		return n, f.fail()
	}
	return n, nil
}

// fail is what ended it, as people are told.
func (f *FileReader) fail() error {
	var told *Error
	if errors.Is(f.err, io.EOF) || errors.As(f.err, &told) {
		return f.err
	}
	return f.lost(f.err)
}

// line reads the next line. io.EOF is the end that was announced.
func (f *FileReader) line() error {
	var l fileLine
	if err := readLine(f.r, &l); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	switch {
	case l.Error != nil:
		return l.Error
	case l.End:
		return io.EOF
	case l.Bytes < 0 || l.Bytes > maxFileBytes || int64(l.Bytes) > f.size-f.read || l.Size < 0:
		return errFileLine
	case l.Fetch != nil:
		if f.Heard != nil {
			f.Heard(*l.Fetch)
		}
	case l.Blob != nil:
		f.next = &l
	}
	f.left = int64(l.Bytes)
	return nil
}

// Close ends it, read or not.
func (f *FileReader) Close() error { return f.body.Close() }
