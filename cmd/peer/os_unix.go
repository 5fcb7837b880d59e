//go:build !windows

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp tells whether a pipe is empty and nobody can write to it any more. It does not wait.
func hungUp(f *os.File) (yes bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		yes = err == nil && n == 1 && fds[0].Revents&unix.POLLHUP != 0 && fds[0].Revents&unix.POLLIN == 0
	})
	return yes
}

// writeOnly reports whether a file was opened for writing, and cannot be read.
func writeOnly(f *os.File) (yes bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		yes = err == nil && flags&unix.O_ACCMODE == unix.O_WRONLY
	})
	return yes
}

// ownSession detaches a child from this terminal.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// ownerOf is the id of the user to whom a file belongs, if it is there.
func ownerOf(path string) (uid int, known bool) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	sys, known := st.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(sys.Uid), true
}
