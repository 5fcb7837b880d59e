package process

import (
	"errors"
	"syscall"
)

// unwritten tells whether nobody has a file open for writing: only then the kernel grants a lease
// for reading, which closing gives back. Where there are no leases, the answer is yes. The task may
// have put a pipe in its place: opening that must not wait for a writer.
func unwritten(path string) bool {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|noFollow, 0)
	for errors.Is(err, syscall.EINTR) {
		fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|noFollow, 0)
	}
	if err != nil {
		return true // gone: its job was cleaned away
	}
	defer func() { _ = syscall.Close(fd) }()
	_, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETLEASE, syscall.F_RDLCK)
	return e != syscall.EAGAIN
}
