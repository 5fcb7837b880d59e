package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"
	"sync"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// WriteOptions is how a tree is written.
type WriteOptions struct {
	// Force replaces files and links that differ, and puts folders in their place; it never
	// removes a folder.
	Force bool
	// Brought is what was written at a path before, and may be replaced as long as it is still
	// there unchanged. Wrote is told of each file and link once it has its name. Both may be nil.
	Brought func(path string) (tree.Entry, bool)
	Wrote   func(tree.Entry)
	// Open gives the content of a file. It is asked in the order of the tree, once for each file
	// that is not there yet and not empty. What it gives is checked.
	Open func(context.Context, tree.Entry) (io.ReadCloser, error)
	// Need is told in the first reading which files Open will be asked for, in the order of the
	// tree. Begin is called once after it, with what these come to, unless something is in the way;
	// its error ends it all before anything is written. Both may be nil.
	Need  func(tree.Entry)
	Begin func(tree.Totals) error
	// Progress is told of bytes that are there from now on, written or found; it may be nil.
	Progress func(bytes int64)
	// Link puts a file in its place in a folder without reading its content, and tells whether it
	// did: else it is written. It answers for what it puts there. It may be nil.
	Link func(ctx context.Context, dir *os.Root, name string, e tree.Entry) (bool, error)
	// ReadOnly is for files that nobody is to write to.
	ReadOnly bool
	// NoSync leaves it to the system when files reach the disk.
	NoSync bool
}

// Report is what became of the files and links of a tree.
type Report struct {
	Wrote int   `json:"wrote"`
	Links int   `json:"links"` // how many of those are links
	Left  int   `json:"left"`  // were there already
	Bytes int64 `json:"bytes"` // written
}

// InTheWay is returned where something else has the name of an entry.
type InTheWay struct {
	Paths   []string // some of them
	Count   int      // all of them
	Folders bool     // a folder is where a file belongs, which nothing replaces
}

func (w *InTheWay) Error() string {
	s := fmt.Sprintf("%q", w.Paths[0])
	for _, p := range w.Paths[1:] {
		s += fmt.Sprintf(", %q", p)
	}
	if rest := w.Count - len(w.Paths); rest > 0 {
		s += fmt.Sprintf(" and %d more", rest)
	}
	one := w.Count == 1
	switch {
	case w.Folders && one:
		return s + " is a folder, where a file or link belongs"
	case w.Folders:
		return s + " are folders, where files or links belong"
	case one:
		return s + " exists already, and differs"
	}
	return s + " exist already, and differ"
}

// NoRoom is returned where the disk cannot hold what is to be written.
type NoRoom struct{ Needed, Free int64 }

func (e *NoRoom) Error() string {
	return fmt.Sprintf("no room on the disk: %d bytes are needed, and %d are free", e.Needed, e.Free)
}

// ErrContent is returned where the content that came for a file is not what its entry says.
var ErrContent = errors.New("its content came wrong")

// Write writes the entries of a tree below root; entries is ranged over up to three times. Nothing
// is changed before all entries were read and nothing was found in the way. All is on the disk when
// it returns without an error, at the price of one wait and not one for each file.
func Write(ctx context.Context, root *os.Root, entries iter.Seq2[tree.Entry, error], o WriteOptions) (Report, error) {
	w := &writing{ctx: ctx, options: o, folders: folders{root: root}}
	defer w.folders.up(0)
	for _, pass := range []func(iter.Seq2[tree.Entry, error]) error{w.look, w.write, w.link} {
		if err := pass(entries); err != nil {
			return w.report, err
		}
		w.folders.up(0)
	}
	if w.options.NoSync || w.report.Wrote == 0 {
		return w.report, nil
	}
	return w.report, syncAll(root)
}

// A found is what the first reading saw where an entry belongs.
type found byte

const (
	nothing      found = iota
	equal              // what the entry says
	other              // to be replaced
	brought            // to be replaced if it is still what WriteOptions.Brought says
	equalButExec       // to be corrected
)

// replaces reports whether what is there has to go.
func (f found) replaces() bool { return f == other || f == brought }

type writing struct {
	ctx     context.Context
	options WriteOptions
	folders folders
	found   []found     // by number of entry
	needs   tree.Totals // the files that Open is asked for
	needed  int64       // bytes of them that are not written yet
	links   int
	report  Report
}

func (w *writing) progress(n int64) {
	if w.options.Progress != nil {
		w.options.Progress(n)
	}
}

// each calls f with every entry and its number.
func (w *writing) each(entries iter.Seq2[tree.Entry, error], f func(int, tree.Entry) error) error {
	n := 0
	for e, err := range entries {
		if err == nil {
			err = w.ctx.Err()
		}
		if err == nil {
			err = f(n, e)
		}
		if err != nil {
			return err
		}
		n++
	}
	return nil
}

// look is the first reading.
func (w *writing) look(entries iter.Seq2[tree.Entry, error]) error {
	differ, folders := &InTheWay{}, &InTheWay{Folders: true}
	missing := "/" // a folder that is not there, as nothing below it is
	err := w.each(entries, func(_ int, e tree.Entry) error {
		if !fits(e.Path) || !fits(e.Target) {
			return fmt.Errorf("%q cannot be on a disk of this system", e.Path)
		}
		is := nothing
		if !strings.HasPrefix(e.Path, missing) {
			var info fs.FileInfo
			var err error
			if is, info, err = w.there(e); err != nil {
				return err
			}
			switch {
			case is == other && info.IsDir():
				folders.add(e.Path)
			case is == other && !w.options.Force:
				if is, err = w.ours(e); err != nil {
					return err
				}
				if is == other {
					differ.add(e.Path)
				}
			}
			if e.Kind == tree.Dir && is != equal {
				missing = e.Path + "/"
			}
		}
		switch {
		case e.Kind == tree.Link:
			w.links++
		case e.Kind == tree.File && (is == nothing || is.replaces()) && e.Size > 0:
			w.needs.Files++
			w.needs.Bytes += e.Size
			if w.options.Need != nil {
				w.options.Need(e)
			}
		}
		w.found = append(w.found, is)
		return nil
	})
	switch {
	case err != nil:
		return err
	case folders.Count > 0:
		return folders
	case differ.Count > 0:
		return differ
	}
	w.needed = w.needs.Bytes
	if free := freeBytes(w.folders.root); w.needed > free && w.options.Link == nil {
		return &NoRoom{w.needed, free}
	}
	if w.options.Begin != nil {
		return w.options.Begin(w.needs)
	}
	return nil
}

func (w *InTheWay) add(path string) {
	if w.Count++; w.Count <= 10 {
		w.Paths = append(w.Paths, path)
	}
}

// there looks where an entry belongs; its folder is there.
func (w *writing) there(e tree.Entry) (found, fs.FileInfo, error) {
	dir, name, err := w.folders.of(e.Path)
	if err != nil {
		return 0, nil, err
	}
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	is := other
	switch {
	case e.Kind == tree.Dir && info.IsDir():
		is = equal
	case e.Kind == tree.Link && info.Mode().Type() == fs.ModeSymlink:
		if target, err := dir.Readlink(name); err == nil && slashed(target) == e.Target {
			is = equal
		}
	case e.Kind == tree.File && info.Mode().IsRegular() && info.Size() == e.Size:
		is, err = compare(w.ctx, dir, name, info, e)
	}
	return is, info, err
}

// ours looks whether what differs where an entry belongs is what was brought there before.
func (w *writing) ours(e tree.Entry) (found, error) {
	if w.options.Brought == nil {
		return other, nil
	}
	was, known := w.options.Brought(e.Path)
	if !known {
		return other, nil
	}
	is, _, err := w.there(was)
	if is == equal || is == equalButExec {
		return brought, err
	}
	return other, err
}

// still fails if what is to be replaced was changed since the first reading.
func (w *writing) still(e tree.Entry, is found) error {
	if is != brought {
		return nil
	}
	now, err := w.ours(e)
	if err == nil && now != brought {
		err = fs.ErrExist
	}
	return err
}

// wrote counts a file or link.
func (w *writing) wrote(e tree.Entry) {
	w.report.Wrote++
	if w.options.Wrote != nil {
		w.options.Wrote(e)
	}
}

func compare(ctx context.Context, dir *os.Root, name string, info fs.FileInfo, e tree.Entry) (found, error) {
	f, err := open(dir, name, info)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	root, size, err := Hash(ctx, e, io.LimitReader(f, e.Size+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q: %w", e.Path, err)
	case root != e.Root || size != e.Size:
		return other, nil
	case hasExec && e.Exec != (info.Mode()&0o100 != 0):
		return equalButExec, nil
	}
	return equal, nil
}

// write is the second reading: folders and files.
func (w *writing) write(entries iter.Seq2[tree.Entry, error]) error {
	return w.each(entries, func(n int, e tree.Entry) error {
		dir, name, err := w.folders.of(e.Path)
		if err != nil {
			return err
		}
		is := w.found[n]
		switch {
		case e.Kind == tree.Dir:
			if err = w.still(e, is); err == nil {
				err = makeDir(dir, name, is)
			}
		case e.Kind == tree.Link:
		case is == equalButExec:
			err = setExec(dir, name, e.Exec)
			fallthrough
		case is == equal:
			w.report.Left++
			w.progress(e.Size)
		default:
			err = w.file(dir, name, e, is)
		}
		return w.says(e, err)
	})
}

// says is an error with its path, or that there is no room.
func (w *writing) says(e tree.Entry, err error) error {
	if err == nil {
		return nil
	}
	if isFull(err) {
		return &NoRoom{w.needed, freeBytes(w.folders.root)}
	}
	if errors.Is(err, fs.ErrExist) {
		if is, _, bad := w.there(e); bad == nil && is == equal { // another process has written the same meanwhile
			if e.Kind != tree.Dir {
				w.report.Left++
			}
			return nil
		}
		return &InTheWay{Paths: []string{e.Path}, Count: 1}
	}
	return fmt.Errorf("%q: %w", e.Path, err)
}

func makeDir(dir *os.Root, name string, is found) error {
	switch is {
	case equal:
		return nil
	case other, brought:
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	return dir.Mkdir(name, 0o777)
}

func setExec(dir *os.Root, name string, exec bool) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm() &^ 0o111
	if exec {
		mode |= mode & 0o444 >> 2 // for whoever may read it
	}
	return dir.Chmod(name, mode)
}

// buffers hold a small file, or a part of a large one.
var buffers = sync.Pool{New: func() any { return new([4 * piece.Size]byte) }}

func (w *writing) file(dir *os.Root, name string, e tree.Entry, is found) error {
	if w.options.Link != nil && is == nothing {
		if put, err := w.options.Link(w.ctx, dir, name, e); put || err != nil {
			w.wrote(e)
			w.progress(e.Size)
			return err
		}
	}
	content := io.ReadCloser(io.NopCloser(strings.NewReader("")))
	if e.Size > 0 {
		var err error
		if content, err = w.options.Open(w.ctx, e); err != nil {
			return err
		}
	}
	defer content.Close()
	buf := buffers.Get().(*[4 * piece.Size]byte)
	defer buffers.Put(buf)
	n, err := io.ReadFull(content, buf[:min(int64(len(buf)), e.Size)])
	if err != nil {
		return wrong(e, err)
	}
	if int64(n) == e.Size && piece.Sum(buf[:n]) != e.Root {
		return wrong(e, nil)
	}
	mode := fs.FileMode(0o666)
	if e.Exec {
		mode = 0o777
	}
	if w.options.ReadOnly {
		mode &^= 0o222
	}
	f, err := createPart(dir, partOf(name), mode)
	if err != nil {
		return err
	}
	err = w.fill(f, content, e, buf[:], n)
	if closeFirst {
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = w.still(e, is)
	}
	if err == nil {
		err = publish(dir, name, is.replaces())
	}
	if err != nil {
		_ = dir.Remove(partOf(name)) // while it is locked, it is ours
	}
	if !closeFirst {
		if bad := f.Close(); bad != nil && err == nil { // some systems say only now what they could not write
			err = errors.Join(bad, dir.Remove(name))
		}
	}
	if err != nil {
		return err
	}
	w.wrote(e)
	w.report.Bytes += e.Size
	return nil
}

func wrong(e tree.Entry, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("%w: it is not %s", ErrContent, e.Root)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ended before %d bytes", ErrContent, e.Size)
	}
	return err
}

// publishUnseen is publish where the system cannot look and rename at once.
func publishUnseen(dir *os.Root, from, name string) error {
	if _, err := dir.Lstat(name); err == nil {
		return fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dir.Rename(from, name)
}

// fill writes the content, of which the first n bytes are in buf. What is larger than buf is
// checked while it is written; what is not was checked before.
func (w *writing) fill(f *os.File, content io.Reader, e tree.Entry, buf []byte, n int) error {
	large, h, sparse := e.Size > int64(n), piece.NewHasher(), piece.Sparse{To: f}
	for done := int64(0); ; {
		var hashed sync.WaitGroup
		if large {
			hashed.Go(func() { _, _ = h.Write(buf[:n]) })
		}
		_, err := sparse.WriteAt(buf[:n], done)
		hashed.Wait()
		if err != nil {
			return err
		}
		done += int64(n)
		w.needed -= int64(n)
		w.progress(int64(n))
		if done == e.Size {
			break
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		next := min(int64(len(buf)), e.Size-done)
		if n, err = io.ReadFull(content, buf[:next]); err != nil {
			return wrong(e, err)
		}
	}
	if err := sparse.End(e.Size); err != nil {
		return err
	}
	if large {
		if root, _, _ := h.Sum(); root != e.Root {
			return wrong(e, nil)
		}
	}
	return nil
}

// link is the last reading, where there are links.
func (w *writing) link(entries iter.Seq2[tree.Entry, error]) error {
	if w.links == 0 {
		return nil
	}
	return w.each(entries, func(n int, e tree.Entry) error {
		if e.Kind != tree.Link {
			return nil
		}
		if w.found[n] == equal {
			w.report.Left++
			return nil
		}
		dir, name, err := w.folders.of(e.Path)
		if err != nil {
			return err
		}
		if err = w.still(e, w.found[n]); err == nil && w.found[n].replaces() {
			err = dir.Remove(name)
		}
		if err == nil {
			err = dir.Symlink(unslashed(e.Target), name)
		}
		if err == nil {
			w.wrote(e)
			w.report.Links++
		}
		return w.says(e, err)
	})
}

// folders keeps those around the path that was asked for last open, so that every file is opened by
// its name alone.
type folders struct {
	root *os.Root
	open []folder
}

type folder struct {
	path string // with a slash behind it
	root *os.Root
}

// of is the folder of a path, and the name in it.
func (f *folders) of(path string) (*os.Root, string, error) {
	cut := strings.LastIndexByte(path, '/') + 1
	above, name := path[:cut], path[cut:]
	n := len(f.open)
	for n > 0 && !strings.HasPrefix(above, f.open[n-1].path) {
		n--
	}
	f.up(n)
	at, dir := "", f.root
	if n > 0 {
		at, dir = f.open[n-1].path, f.open[n-1].root
	}
	for rest := above[len(at):]; rest != ""; {
		next, after, _ := strings.Cut(rest, "/")
		info, err := dir.Lstat(next)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%q: %w", above, ErrChanged)
		}
		if err != nil {
			return nil, "", err
		}
		if dir, err = openDir(dir, next, info); err != nil {
			return nil, "", err
		}
		at, rest = at+next+"/", after
		f.open = append(f.open, folder{at, dir})
	}
	return dir, name, nil
}

// up closes all but the outer n.
func (f *folders) up(n int) {
	for _, x := range f.open[n:] {
		x.root.Close()
	}
	f.open = f.open[:n]
}
