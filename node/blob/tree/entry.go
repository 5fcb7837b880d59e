package tree

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/coveyproject/covey/node/blob/piece"
)

// Kind is what an entry is.
type Kind uint8

// The kinds there are.
const (
	File Kind = iota + 1
	Dir
	Link
)

// String is a word for people.
func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Dir:
		return "folder"
	case Link:
		return "link"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Entry is one file, folder or link. Paths and targets are bytes with slashes, as they are on disk:
// they need not be UTF-8, so quote them for people.
type Entry struct {
	Path   string
	Kind   Kind
	Exec   bool       // of a file
	Size   int64      // of a file
	Root   piece.Root // of a file
	Target string     // of a link
}

// Totals is what a tree comes to.
type Totals struct {
	Files int   `cbor:"1,keyasint,omitempty" json:"files"`
	Dirs  int   `cbor:"2,keyasint,omitempty" json:"dirs"`
	Links int   `cbor:"3,keyasint,omitempty" json:"links"`
	Bytes int64 `cbor:"4,keyasint,omitempty" json:"bytes"` // of all files, however many are equal
}

// Entries is how many there are.
func (t Totals) Entries() int { return t.Files + t.Dirs + t.Links }

func (t *Totals) add(e Entry) {
	switch e.Kind {
	case File:
		t.Files++
		t.Bytes += e.Size
	case Dir:
		t.Dirs++
	case Link:
		t.Links++
	}
}

// Ref names a file or a folder: what people pass around.
type Ref struct {
	Root piece.Root
	Dir  bool // Root is that of a tree
}

// String is the name, with a slash behind that of a folder.
func (r Ref) String() string {
	if r.Dir {
		return r.Root.String() + "/"
	}
	return r.Root.String()
}

// ParseRef reads what String writes.
func ParseRef(s string) (Ref, error) {
	name, dir := strings.CutSuffix(s, "/")
	root, err := piece.ParseRoot(name)
	return Ref{root, dir && err == nil}, err
}

// MarshalText is String, for JSON and YAML.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRef.
func (r *Ref) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRef(string(text))
	return err
}

// Entries reads the tree that open opens: once for each time it is ranged over. An error comes
// last.
func Entries(open func() (io.ReadCloser, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		f, err := open()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer f.Close()
		for r := NewReader(f); ; {
			e, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}
