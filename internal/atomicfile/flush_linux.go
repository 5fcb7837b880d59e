package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// FlushData brings what was written in place to the disk, without the file's times.
func FlushData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// FlushDir brings the names of a folder's files to the disk.
func FlushDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
