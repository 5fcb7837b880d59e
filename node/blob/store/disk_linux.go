package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nonBlock: what was put in a blob's place may be a pipe.
const nonBlock = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// reserve has the file system keep room for all of a file. One that cannot is written to as long as
// there is some.
func reserve(f *os.File, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, n)
		switch {
		case err == nil, errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		case !errors.Is(err, unix.EINTR):
			return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}

func (f onDisk) clone(from *os.File) error {
	return unix.IoctlFileClone(int(f.Fd()), int(from.Fd()))
}

func (d *folder) link(from *os.File, name string) error {
	f, err := d.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", from.Fd()), int(f.Fd()), path.Base(name), unix.AT_SYMLINK_FOLLOW)
	return errors.Join(err, f.Close())
}

func (d *folder) syncAll() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// usedAt is when a file was read last.
func usedAt(i fs.FileInfo) time.Time {
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Atim.Unix())
	}
	return i.ModTime()
}

// takenAt is how many bytes of the disk a file has.
func takenAt(i fs.FileInfo) int64 {
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return i.Size()
}

func (f onDisk) zero(off, n int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINTR) {
		return f.writeZeros(off, n)
	}
	return err
}

// onlyName tells whether a file has no other name.
func onlyName(i fs.FileInfo) bool {
	st, ok := i.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 1
}
