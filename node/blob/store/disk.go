package store

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/node/runner/supervise"
)

// disk is the folder the store is in: names are below it, with slashes.
type disk interface {
	create(name string, mode fs.FileMode) (file, error) // one that is not there yet
	open(name string) (file, error)                     // for reading
	write(name string) (file, error)                    // for reading and writing
	list(name string) ([]found, error)
	mkdir(name string) error
	rename(from, to string) error          // takes the place of a file
	link(from *os.File, name string) error // gives it one more name; may be unsupported
	remove(name string) error
	chmod(name string, mode fs.FileMode) error
	touch(name string, at time.Time) error // when it was used
	sync(names []string) error             // what is in these files and folders is on the disk after it
	taken(name string) (int64, error)      // how many bytes of the disk a file has
	room() (free, total int64, err error)  // what may still be written (negative: less than is to stay free), of how much
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	size() (int64, error)
	allocate(n int64) error    // makes it n bytes long, and keeps room for them
	zero(off, n int64) error   // makes bytes within its length zeros, which take no room where the system can do that
	clone(from *os.File) error // makes it what from is, without copying; may be unsupported
	sync() error
}

// found is an entry of a folder.
type found struct {
	name    string
	size    int64
	taken   int64 // of the disk
	used    time.Time
	regular bool
}

// modes of files while they are written, and of whole ones. Windows removes and syncs nothing that
// may not be written.
const writeMode = 0o600

func wholeMode() fs.FileMode {
	if runtime.GOOS == "windows" {
		return writeMode
	}
	return 0o444
}

// folder is a disk that is one. Nothing in it leads out of it.
type folder struct {
	root  *os.Root
	leave int64 // bytes to leave free; negative: as many as the peer needs to work
}

func openFolder(dir string, leave int64) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.FlushDir(filepath.Dir(dir)); err != nil { // its own name, if it is new
		return nil, errors.Join(err, root.Close())
	}
	return &folder{root, leave}, nil
}

func (d *folder) file(name string, flag int, mode fs.FileMode) (file, error) {
	f, err := d.root.OpenFile(name, flag, mode)
	if err != nil {
		return nil, err
	}
	return onDisk{f}, nil
}

func (d *folder) create(name string, mode fs.FileMode) (file, error) {
	return d.file(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, mode)
}

func (d *folder) open(name string) (file, error) {
	return d.file(name, os.O_RDONLY|nonBlock, 0)
}

func (d *folder) write(name string) (file, error) { return d.file(name, os.O_RDWR, 0) }

func (d *folder) list(name string) (out []found, err error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if i, err := e.Info(); err == nil {
				out = append(out, found{e.Name(), i.Size(), takenAt(i), usedAt(i), i.Mode().IsRegular()})
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (d *folder) mkdir(name string) error {
	if err := d.root.Mkdir(name, 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (d *folder) rename(from, to string) error              { return d.root.Rename(from, to) }
func (d *folder) remove(name string) error                  { return d.root.Remove(name) }
func (d *folder) chmod(name string, mode fs.FileMode) error { return d.root.Chmod(name, mode) }

func (d *folder) taken(name string) (int64, error) {
	i, err := d.root.Lstat(name)
	if err != nil {
		return 0, err
	}
	return takenAt(i), nil
}

// touch sets what a system counts as the last reading. When it was written stays as it is.
func (d *folder) touch(name string, at time.Time) error {
	return d.root.Chtimes(name, at, time.Time{})
}

// few files are synced one by one, many all at once with whatever else the file system has to
// write.
const few = 8

func (d *folder) sync(names []string) error {
	if len(names) > few {
		if err := d.syncAll(); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	for _, name := range names {
		flag := os.O_RDONLY
		if runtime.GOOS == "windows" {
			flag = os.O_RDWR
		}
		f, err := d.root.OpenFile(name, flag, 0)
		if err != nil && runtime.GOOS == "windows" {
			continue // a folder: it cannot be synced there
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (d *folder) room() (free, total int64, err error) {
	r, err := supervise.RoomOf(d.root.Name())
	if errors.Is(err, errors.ErrUnsupported) {
		return math.MaxInt64 / 2, math.MaxInt64 / 2, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if d.leave < 0 {
		return r.Free - r.Mark(), r.Total, nil
	}
	return r.Free - d.leave, r.Total, nil
}

// onDisk is a file of a folder.
type onDisk struct{ *os.File }

func (f onDisk) size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

func (f onDisk) sync() error { return f.Sync() }

func (f onDisk) allocate(n int64) error {
	if err := f.Truncate(n); err != nil || n == 0 {
		return err
	}
	return reserve(f.File, n)
}

func (f onDisk) writeZeros(off, n int64) error {
	_, err := f.WriteAt(make([]byte, n), off) // of one piece at most
	return err
}
