//go:build unix

package runner

import (
	"syscall"
)

// pristine tells whether a folder is empty and has the mode we make it with. It is asked after every task, so it does without os.File.
func pristine(dir string) bool {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC|noFollow, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&0o7777 != 0o700 {
		return false
	}
	var room [1024]byte
	for {
		n, err := syscall.ReadDirent(fd, room[:])
		if err != nil || n == 0 {
			return err == nil
		}
		if _, names, _ := syscall.ParseDirent(room[:n], 1, nil); names > 0 {
			return false
		}
	}
}

// rename is rename(2); os.Rename looks first what is there.
func rename(from, to string) error { return syscall.Rename(from, to) }
