package tree

import (
	"errors"
	"fmt"
	"io"

	"github.com/coveyproject/covey/p2p/wire"
)

// version is what a tree begins with. Whoever reads it refuses every other.
const version = "covey tree 1\n"

// HeadSize is how much of a file IsTree looks at.
const HeadSize = len(version)

// IsTree tells whether something begins as a tree does.
func IsTree(head []byte) bool { return string(head) == version }

// maxFrame holds an entry with the longest path and target.
const maxFrame = 2*maxPath + 128

// frame is an entry, or the end.
type frame struct {
	Path   []byte  `cbor:"1,keyasint,omitempty"`
	Kind   Kind    `cbor:"2,keyasint,omitempty"`
	Exec   bool    `cbor:"3,keyasint,omitempty"`
	Size   int64   `cbor:"4,keyasint,omitempty"`
	Root   []byte  `cbor:"5,keyasint,omitempty"`
	Target []byte  `cbor:"6,keyasint,omitempty"`
	End    *Totals `cbor:"7,keyasint,omitempty"` // of all entries before it; nothing follows
}

// Writer writes a tree.
type Writer struct {
	frames *wire.Writer
	checker
	err error
}

// NewWriter begins one.
func NewWriter(w io.Writer) *Writer {
	_, err := io.WriteString(w, version)
	return &Writer{frames: wire.NewWriter(w, maxFrame), err: err}
}

// Add takes the next entry, in order. After an error nothing more is taken.
func (w *Writer) Add(e Entry) error {
	if w.err == nil {
		w.err = w.check(e)
	}
	if w.err == nil {
		f := frame{Path: []byte(e.Path), Kind: e.Kind, Exec: e.Exec, Size: e.Size, Target: []byte(e.Target)}
		if e.Kind == File {
			f.Root = e.Root[:]
		}
		w.err = w.frames.Write(f)
	}
	return w.err
}

// Close ends the tree, without which it cannot be read; what it is written to stays open.
func (w *Writer) Close() (Totals, error) {
	if w.err == nil {
		w.err = w.frames.Send(frame{End: &w.totals})
	}
	if w.err != nil {
		return Totals{}, w.err
	}
	w.err = errors.New("the tree is complete already")
	return w.totals, nil
}

// Reader reads a tree from anybody.
type Reader struct {
	r      io.Reader
	frames *wire.Reader
	checker
	err error
}

// NewReader begins to read one. It reads ahead.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Next is the next entry. At the end, when the tree is whole and its totals are right, it is
// io.EOF; every other error is for good.
func (r *Reader) Next() (Entry, error) {
	if r.frames == nil && r.err == nil {
		r.err = r.begin()
	}
	if r.err != nil {
		return Entry{}, r.err
	}
	e, err := r.next()
	r.err = err
	return e, err
}

// Totals is what came so far.
func (r *Reader) Totals() Totals { return r.totals }

func (r *Reader) begin() error {
	var head [len(version)]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return truncatedErr(err)
	}
	if string(head[:]) != version {
		return fmt.Errorf("%w: it begins with %q, and what this program reads with %q", ErrRefused, head[:], version)
	}
	r.frames = wire.NewReader(r.r, maxFrame)
	return nil
}

// cut tells a list that ends too early from one that cannot be read.
func truncatedErr(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the list is cut off", ErrRefused)
	}
	return err
}

func (r *Reader) next() (Entry, error) {
	var f frame
	if err := r.frames.Read(&f); errors.Is(err, wire.ErrMalformed) || errors.Is(err, wire.ErrTooLarge) {
		return Entry{}, fmt.Errorf("%w: after %.200q: %w", ErrRefused, r.last.Path, err)
	} else if err != nil {
		return Entry{}, truncatedErr(err)
	}
	if f.End != nil {
		return Entry{}, r.end(f)
	}
	e := Entry{Path: string(f.Path), Kind: f.Kind, Exec: f.Exec, Size: f.Size, Target: string(f.Target)}
	if len(f.Root) > 0 && copy(e.Root[:], f.Root) != len(f.Root) || len(f.Root)%len(e.Root) != 0 {
		return Entry{}, refuse(e.Path, "has a name of content of %d bytes", len(f.Root))
	}
	if err := r.check(e); err != nil {
		return Entry{}, err
	}
	return e, nil
}

func (r *Reader) end(f frame) error {
	totals := *f.End
	if f.Path != nil || f.Kind != 0 || f.Exec || f.Size != 0 || f.Root != nil || f.Target != nil {
		return fmt.Errorf("%w: an end that is an entry, too", ErrRefused)
	}
	if totals != r.totals {
		return fmt.Errorf("%w: its totals are %+v, and there were %+v", ErrRefused, totals, r.totals)
	}
	err := r.frames.Read(new(frame))
	if err == nil || errors.Is(err, wire.ErrMalformed) || errors.Is(err, wire.ErrTooLarge) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: something follows the end", ErrRefused)
	}
	return err
}
