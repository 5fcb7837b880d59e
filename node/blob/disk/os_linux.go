package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// publish gives a part its name; where nothing is to be replaced, nothing is.
func publish(dir *os.Root, name string, replace bool) error {
	from := partOf(name)
	if replace {
		return dir.Rename(from, name)
	}
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	err = unix.Renameat2(int(d.Fd()), from, int(d.Fd()), name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not on this file system
		return publishUnseen(dir, from, name)
	}
	return err
}

func syncAll(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
