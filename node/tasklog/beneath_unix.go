//go:build unix

package tasklog

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openBeneath opens a file below a folder for reading. No part of the way there may be a symbolic
// link: a task could have it lead anywhere. It does not wait: a pipe that a task put there would
// wait for a writer.
func openBeneath(dir, rel string) (*os.File, error) {
	path := filepath.Join(dir, rel)
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	parts := strings.Split(filepath.Clean(rel), string(filepath.Separator))
	for i, name := range parts {
		if err != nil {
			break
		}
		flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
		if i < len(parts)-1 {
			flags |= unix.O_DIRECTORY
		}
		next, nextErr := openat(at, name, flags)
		_ = unix.Close(at)
		at, err = next, nextErr
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(at), path), nil
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != syscall.EINTR { //nolint:errorlint // as the system gives it
			return fd, err
		}
	}
}

// linked tells whether an error of openBeneath means that there is a symbolic link.
func linked(err error) bool { return err == unix.ELOOP || err == unix.EMLINK } //nolint:errorlint // unwrapped by the caller
