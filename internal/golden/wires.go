package golden

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/coveyproject/covey/p2p/wire"
)

// Wire is one protocol, or one kind of file, of CBOR.
type Wire struct {
	Name   string                        // with its version: what others are asked for, or the beginning of the file
	Frames map[string]any                // a pointer to a zero value of each of its types, under a name that is unique in the package
	Own    func(reflect.Value, int) bool // see Fill
	Loose  bool                          // unknown fields are no matter of its reader
}

const fingerprints = "testdata/fingerprints.txt"

// Wires holds protocols to four things: frames are encoded as testdata/NAME says; they are read as
// they were written; a field that a reader does not know is refused; and as long as a protocol has
// its version, the shape of its frames has its fingerprint.
func Wires(t T, name string, wires ...Wire) {
	t.Helper()
	said := map[string]string{}
	for _, w := range wires {
		for frame, v := range w.Frames {
			Fill(reflect.ValueOf(v).Elem(), 1, w.Own)
			text, err := w.said(v)
			if err != nil {
				t.Errorf("%s, %s: %v", w.Name, frame, err)
			}
			said[frame] = text
		}
		for d := 1; d <= wire.Dialect; d++ {
			Freeze(t, fmt.Sprintf("%s dialect %d", w.Name, d), w.shape(d))
		}
	}
	var b strings.Builder
	for _, frame := range slices.Sorted(maps.Keys(said)) {
		fmt.Fprintf(&b, "%s: %s\n", frame, strings.ReplaceAll(said[frame], "}, {", "},\n  {"))
	}
	if err := Check(filepath.Join("testdata", name), b.String()); err != nil {
		t.Errorf("%v", err)
	}
}

// said is a frame's encoding for people, once it was found to be read as it is written.
func (w Wire) said(v any) (string, error) {
	b, err := wire.Marshal(v)
	if err != nil {
		return "", err
	}
	back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
	if err := wire.Unmarshal(b, back); err != nil {
		return "", err
	}
	if again, err := wire.Marshal(back); err != nil || !bytes.Equal(again, b) {
		return "", fmt.Errorf("it is read as %+v, and was %+v: %w", back, v, err)
	}
	var fields map[int]cbor.RawMessage
	if !w.Loose && cbor.Unmarshal(b, &fields) == nil {
		fields[99] = cbor.RawMessage{1}
		more, err := wire.Marshal(fields)
		if err != nil {
			return "", err
		}
		if err := wire.Unmarshal(more, reflect.New(reflect.TypeOf(v).Elem()).Interface()); !errors.Is(err, wire.ErrUnknown) {
			return "", fmt.Errorf("with a field nobody knows it is read: %w", err)
		}
	}
	return cbor.Diagnose(b)
}

// Freeze holds that what has this name, a version in it, has this shape. The first shape of a name
// is remembered as a fingerprint, by -update, and never changed.
func Freeze(t T, name, shape string) {
	t.Helper()
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(shape)))[:16]
	known, err := os.ReadFile(fingerprints)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
		return
	}
	for line := range strings.Lines(string(known)) {
		was, ok := strings.CutPrefix(strings.TrimSpace(line), name+": ")
		switch {
		case ok && was != sum:
			t.Errorf("the shape of %q has changed (%s, and was %s) and its version has not: who reads this version cannot read that. "+
				"Give the new field the tag `dialect:\"N\"` of the next dialect, or the wire another version (docs/wires.md). It is now\n%s", name, sum, was, shape)
			return
		case ok:
			return
		}
	}
	if !*update {
		t.Errorf("%s knows nothing of %q: -update writes its fingerprint", fingerprints, name)
		return
	}
	lines := append(slices.Collect(strings.Lines(string(known))), name+": "+sum+"\n")
	slices.Sort(lines)
	err = os.MkdirAll(filepath.Dir(fingerprints), 0o755)
	if err := cmp.Or(err, os.WriteFile(fingerprints, []byte(strings.Join(lines, "")), 0o644)); err != nil {
		t.Errorf("%v", err)
	}
}

// shape says what the frames of a dialect look like: numbers and types, no names of Go's.
func (w Wire) shape(dialect int) string {
	var b strings.Builder
	for _, frame := range slices.Sorted(maps.Keys(w.Frames)) {
		fmt.Fprintf(&b, "%s: %s\n", frame, shapeOf(reflect.TypeOf(w.Frames[frame]).Elem(), dialect, nil))
	}
	return b.String()
}

// shapeOf describes a type as CBOR has it. within is the types it is in: none of ours is in itself
// but behind a type that encodes itself.
func shapeOf(t reflect.Type, dialect int, within []reflect.Type) string {
	if own := reflect.TypeFor[cbor.Marshaler](); t.Implements(own) || reflect.PointerTo(t).Implements(own) {
		return "its own"
	}
	if slices.Contains(within, t) {
		return "again"
	}
	within = append(within, t)
	of := func(t reflect.Type) string { return shapeOf(t, dialect, within) }
	switch t.Kind() {
	case reflect.Pointer:
		return of(t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[" + of(t.Elem()) + "]"
	case reflect.Map:
		return "{" + of(t.Key()) + ": " + of(t.Elem()) + "}"
	case reflect.Struct:
		return "{" + strings.Join(fieldsOf(t, dialect, within), ", ") + "}"
	}
	return t.Kind().String()
}

// fieldsOf lists a struct's fields by number, or in order if it is an array.
func fieldsOf(t reflect.Type, dialect int, within []reflect.Type) (out []string) {
	type field struct {
		number int
		text   string
	}
	var all []field
	array := false
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("cbor")
		if n, err := strconv.Atoi(f.Tag.Get(wire.DialectTag)); err == nil && n > dialect {
			continue
		}
		switch {
		case f.Name == "_":
			array = array || tag == ",toarray"
		case tag == "-", !f.IsExported() && !f.Anonymous:
		case f.Anonymous && tag == "":
			for _, text := range fieldsOf(f.Type, dialect, within) {
				n, _ := strconv.Atoi(text[:strings.IndexByte(text, ' ')])
				all = append(all, field{n, text})
			}
		default:
			name, options, _ := strings.Cut(tag, ",")
			n, err := strconv.Atoi(name)
			if err != nil {
				n, name = i, cmp.Or(name, strconv.Itoa(i))
			}
			all = append(all, field{n, strings.TrimSpace(name + " " + shapeOf(f.Type, dialect, within) + " " + options)})
		}
	}
	if !array {
		slices.SortStableFunc(all, func(a, b field) int { return cmp.Compare(a.number, b.number) })
	}
	for _, f := range all {
		out = append(out, f.text)
	}
	return out
}
