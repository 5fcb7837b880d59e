//go:build unix

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	noWaiting = syscall.O_NONBLOCK // a FIFO that came in a file's place must not stop the scan
	hasExec   = true
	// The lock holds until the file has its name.
	closeFirst = false
)

// fits tells whether a path means here what it means in a tree.
func fits(string) bool { return true }

func slashed(target string) string   { return target }
func unslashed(target string) string { return target }

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// freeBytes is how much whoever runs this may still write.
func freeBytes(root *os.Root) int64 {
	f, err := root.Open(".")
	if err != nil {
		return math.MaxInt64
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return math.MaxInt64
	}
	return int64(st.Bavail) * int64(st.Bsize) // the types differ by system
}

// LinkInto gives a file of the folder from one more name, in dir.
func LinkInto(from *os.File, file string, dir *os.Root, name string) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Linkat(int(from.Fd()), file, int(d.Fd()), name, 0); err != nil {
		return &os.LinkError{Op: "link", Old: file, New: name, Err: err}
	}
	return nil
}

// createPart makes a file that is locked while it is written, so that one that was left behind is
// told from one of another process.
func createPart(dir *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	for range 100 {
		f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		made := err == nil
		if errors.Is(err, fs.ErrExist) {
			if f, err = openPart(dir, name); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			f.Close()
			return nil, fmt.Errorf("another process writes it now, as %s", name)
		}
		mine, err := f.Stat()
		if err == nil {
			var there fs.FileInfo
			if there, err = dir.Lstat(name); err == nil && os.SameFile(mine, there) {
				if made {
					return f, nil
				}
				err = dir.Remove(name)
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("others keep writing it, as %s", name)
}

func openPart(dir *os.Root, name string) (*os.File, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is in the way", name)
	}
	return dir.OpenFile(name, os.O_RDONLY|noWaiting, 0)
}
