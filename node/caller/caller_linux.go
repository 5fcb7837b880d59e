package caller

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"unsafe"
)

// Of is the process that connected. Close it.
func Of(c net.Conn) (Process, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Process{}, fmt.Errorf("%T is no unix socket: %w", c, errors.ErrUnsupported)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Process{}, err
	}
	p := Process{fd: -1}
	var wrong error
	err = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil {
			wrong = err
			return
		}
		p.PID, p.UID = int(cred.Pid), int(cred.Uid)
		const pidfd = 77 // SO_PEERPIDFD
		if n, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, pidfd); err == nil {
			p.fd = n
		} else if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			wrong = err // it may be there
		} else if !errors.Is(err, syscall.ENOPROTOOPT) { // it has ended and was reaped
			wrong = errors.New("the process that asked has ended")
		}
	})
	if err = errors.Join(err, wrong); err != nil {
		return Process{}, err
	}
	return p, nil
}

// Gone tells whether the process has ended, or may have: then its number may be another's.
func (p Process) Gone() bool {
	if p.fd < 0 {
		return errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH)
	}
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(p.fd), events: 1 /* POLLIN */}
	var now syscall.Timespec
	for {
		n, _, e := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		if e != syscall.EINTR {
			return e != 0 || n != 0
		}
	}
}

// Close lets go of the process.
func (p Process) Close() {
	if p.fd >= 0 {
		_ = syscall.Close(p.fd)
	}
}
