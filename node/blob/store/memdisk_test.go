package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memDisk is a disk in memory that forgets what was not synced when the power fails, in any
// mixture of old and new: each block of a file, each name in a folder for itself.
type memDisk struct {
	mu   sync.Mutex
	dirs map[string]*memDir
	size int64 // bytes that files may take; 0: no limit
	ops  int   // changes so far
	cut  int   // nothing is possible any more after so many; 0: no cut
	fail int   // that change fails, once; 0: none
	gone *bool // set when the process is dead: its handles work no more
}

type memDir struct{ now, kept map[string]*memNode }

type memNode struct {
	now, kept []byte
	clean     map[int]bool // blocks the system believes to be synced, though that has failed
	mode      fs.FileMode
	used      time.Time
}

// sync keeps what was written, but for what an earlier sync that failed has lost.
func (n *memNode) sync() {
	kept := slices.Clone(n.now)
	for at := range n.clean {
		if end := min(len(kept), at+block); at < end {
			clear(kept[at:end])
			copy(kept[at:end], part(n.kept, at, end))
		}
	}
	n.kept = kept
}

// failSync has what was written since the last sync never come to the disk, unless it is written
// again.
func (n *memNode) failSync() {
	for at := 0; at < len(n.now); at += block {
		if end := at + block; string(part(n.now, at, end)) != string(part(n.kept, at, end)) {
			if n.clean == nil {
				n.clean = map[int]bool{}
			}
			n.clean[at] = true
		}
	}
}

var (
	errCut  = errors.New("the process was killed")
	errDisk = &fs.PathError{Op: "write", Path: "disk", Err: syscall.EIO}
)

func newMemDisk() *memDisk {
	return &memDisk{dirs: map[string]*memDir{".": {map[string]*memNode{}, map[string]*memNode{}}}, gone: new(bool)}
}

// crash ends the process. power tells whether the machine loses its power, too; then old chooses
// what stays as it was synced last.
func (d *memDisk) crash(power bool, old func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*d.gone = true
	d.gone, d.cut, d.fail = new(bool), 0, 0
	if !power {
		return
	}
	done := map[*memNode]bool{}
	for _, dir := range sorted(d.dirs) {
		now := map[string]*memNode{}
		all := map[string]bool{}
		for name := range d.dirs[dir].now {
			all[name] = true
		}
		for name := range d.dirs[dir].kept {
			all[name] = true
		}
		for _, name := range sorted(all) {
			n, k := d.dirs[dir].now[name], d.dirs[dir].kept[name]
			if n != k && old() {
				n = k
			}
			if n == nil {
				continue
			}
			if now[name] = n; !done[n] {
				done[n] = true
				n.lose(old)
			}
		}
		d.dirs[dir].now = now
		d.dirs[dir].kept = clone(now)
	}
}

// lose mixes what was written with what was synced.
func (n *memNode) lose(old func() bool) {
	size := len(n.now)
	if len(n.kept) != size && old() {
		size = len(n.kept)
	}
	mixed := make([]byte, size)
	for at := 0; at < size; at += block {
		end := min(size, at+block)
		was, is := part(n.kept, at, end), part(n.now, at, end)
		if string(was) != string(is) && old() {
			is = was
		}
		copy(mixed[at:end], is)
	}
	n.now, n.kept, n.clean = mixed, slices.Clone(mixed), nil
}

func part(b []byte, from, to int) []byte { return b[min(from, len(b)):min(to, len(b))] }

func sorted[V any](m map[string]V) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func clone(m map[string]*memNode) map[string]*memNode {
	out := map[string]*memNode{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// change is called before each change, with the lock held.
func (d *memDisk) change() error {
	d.ops++
	switch {
	case d.cut > 0 && d.ops > d.cut:
		return errCut
	case d.fail > 0 && d.ops == d.fail:
		return errDisk
	}
	return nil
}

func (d *memDisk) used() (n int64) {
	seen := map[*memNode]bool{}
	for _, dir := range d.dirs {
		for _, f := range dir.now {
			if f != nil && !seen[f] {
				seen[f] = true
				n += blocks(int64(len(f.now)))
			}
		}
	}
	return n
}

func (d *memDisk) split(name string) (*memDir, string, error) {
	dir := d.dirs[path.Dir(name)]
	if dir == nil {
		return nil, "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return dir, path.Base(name), nil
}

func (d *memDisk) find(name string) (*memNode, error) {
	dir, base, err := d.split(name)
	if err != nil {
		return nil, err
	}
	if f := dir.now[base]; f != nil {
		return f, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (d *memDisk) create(name string, mode fs.FileMode) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return nil, err
	}
	dir, base, err := d.split(name)
	if err != nil {
		return nil, err
	}
	if dir.now[base] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	dir.now[base] = &memNode{mode: mode, used: time.Unix(0, 0)}
	return &memFile{d: d, n: dir.now[base], gone: d.gone}, nil
}

func (d *memDisk) open(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return &memFile{d: d, n: f, gone: d.gone, readOnly: true}, nil
}

func (d *memDisk) write(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.find(name)
	if err != nil {
		return nil, err
	}
	if f.mode&0o200 == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return &memFile{d: d, n: f, gone: d.gone}, nil
}

func (d *memDisk) list(name string) (out []found, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := d.dirs[name]
	if dir == nil {
		return nil, fs.ErrNotExist
	}
	for base, f := range dir.now {
		out = append(out, found{base, int64(len(f.now)), int64(len(f.now)), f.used, true})
	}
	if name == "." {
		for sub := range d.dirs {
			if sub != "." {
				out = append(out, found{name: sub})
			}
		}
	}
	return out, nil
}

// mkdir: a folder is there for good. That the store syncs the name of one is not tested here.
func (d *memDisk) mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirs[name] != nil {
		return nil
	}
	if err := d.change(); err != nil {
		return err
	}
	d.dirs[name] = &memDir{map[string]*memNode{}, map[string]*memNode{}}
	return nil
}

func (d *memDisk) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return err
	}
	f, err := d.find(from)
	if err != nil {
		return err
	}
	dir, base, err := d.split(to)
	if err != nil {
		return err
	}
	delete(d.dirs[path.Dir(from)].now, path.Base(from))
	dir.now[base] = f
	return nil
}

func (d *memDisk) link(*os.File, string) error { return errors.ErrUnsupported }

func (d *memDisk) remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return err
	}
	if _, err := d.find(name); err != nil {
		return err
	}
	delete(d.dirs[path.Dir(name)].now, path.Base(name))
	return nil
}

func (d *memDisk) chmod(name string, mode fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return err
	}
	f, err := d.find(name)
	if err == nil {
		f.mode = mode
	}
	return err
}

func (d *memDisk) touch(name string, at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.find(name)
	if err == nil {
		f.used = at
	}
	return err
}

func (d *memDisk) sync(names []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		for _, name := range names {
			if f, _ := d.find(name); f != nil {
				f.failSync()
			}
		}
		return err
	}
	for _, name := range names {
		if dir := d.dirs[name]; dir != nil {
			dir.kept = clone(dir.now)
			continue
		}
		f, err := d.find(name)
		if err != nil {
			return err
		}
		f.sync()
	}
	return nil
}

func (d *memDisk) room() (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size == 0 {
		return 1 << 50, 1 << 50, nil
	}
	return d.size - d.used(), d.size, nil
}

// names lists the files below a folder.
func (d *memDisk) names(dir string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sorted(d.dirs[dir].now)
}

// rot changes a byte of a file, if it has any.
func (d *memDisk) rot(name string, at int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.find(name)
	if err != nil || len(f.now) == 0 {
		return false
	}
	at %= len(f.now)
	f.now = slices.Clone(f.now)
	f.now[at] ^= 0x10
	f.kept = slices.Clone(f.now)
	return true
}

type memFile struct {
	d        *memDisk
	n        *memNode
	gone     *bool
	readOnly bool
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if *f.gone {
		return 0, errCut
	}
	if off >= int64(len(f.n.now)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.now[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.readOnly {
		return 0, fs.ErrPermission
	}
	if *f.gone {
		return 0, errCut
	}
	if err := f.d.change(); err != nil {
		// A call that fails may have written some of it.
		b = b[:len(b)/2]
		if errors.Is(err, errCut) || f.grow(off+int64(len(b))) != nil {
			return 0, err
		}
		return copy(f.n.now[off:], b), err
	}
	if err := f.grow(off + int64(len(b))); err != nil {
		return 0, err
	}
	for at := range f.n.clean {
		if int64(at) < off+int64(len(b)) && int64(at+block) > off {
			delete(f.n.clean, at)
		}
	}
	return copy(f.n.now[off:], b), nil
}

func (f *memFile) grow(size int64) error {
	if size <= int64(len(f.n.now)) {
		return nil
	}
	more := blocks(size) - blocks(int64(len(f.n.now)))
	if f.d.size > 0 && f.d.used()+more > f.d.size {
		return &fs.PathError{Op: "write", Path: "disk", Err: syscall.ENOSPC}
	}
	f.n.now = append(f.n.now, make([]byte, int(size)-len(f.n.now))...)
	return nil
}

func (f *memFile) allocate(n int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.change(); err != nil {
		return err
	}
	if n < int64(len(f.n.now)) {
		f.n.now = f.n.now[:n:n]
	}
	return f.grow(n)
}

func (f *memFile) zero(off, n int64) error {
	_, err := f.WriteAt(make([]byte, n), off)
	return err
}

func (d *memDisk) taken(name string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.find(name)
	if err != nil {
		return 0, err
	}
	return int64(len(f.now)), nil
}

func (f *memFile) size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.n.now)), nil
}

func (f *memFile) sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if *f.gone {
		return errCut
	}
	if err := f.d.change(); err != nil {
		f.n.failSync()
		return err
	}
	f.n.sync()
	return nil
}

func (f *memFile) clone(*os.File) error { return errors.ErrUnsupported }
func (f *memFile) Close() error         { return nil }

// inFolder lists what is in the store's folders of whole blobs.
func (d *memDisk) wholes() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := range d.dirs {
		if len(dir) == 2 {
			for name := range d.dirs[dir].now {
				if !strings.HasSuffix(name, proofEnd) {
					out = append(out, path.Join(dir, name))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
