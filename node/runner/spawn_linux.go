package runner

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

const (
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL
)

// Of waitid(2).
const (
	idPid   = 1
	idPidFD = 3
	wNoWait = 0x1000000
)

// spec is a process to start. argv is never empty.
type spec struct {
	path                  string
	argv, env             []string
	dir                   string
	stdin, stdout, stderr *os.File
}

// ending is how a process ended.
type ending struct {
	exit, signal int
	err          error // its end could not be seen
	alone        bool  // nobody else was left in its group
}

// child is a started process, the leader of its own group. It is syscall.ForkExec with a pidfd instead of os.Process, because the end
// must be seen before the process is reaped – only so long its number is safe to signal – and because waiting on the poller costs no
// thread.
type child struct {
	pid int
	fd  *os.File // pidfd, nil if the kernel has none
	mu  sync.Mutex
	// over means reaped: the number may belong to somebody else.
	over bool
}

func spawn(s spec) (*child, error) {
	fd := -1
	pid, err := syscall.ForkExec(s.path, s.argv, &syscall.ProcAttr{
		Dir: s.dir, Env: s.env, Files: []uintptr{s.stdin.Fd(), s.stdout.Fd(), s.stderr.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true, PidFD: &fd},
	})
	if err != nil {
		return nil, err
	}
	c := &child{pid: pid}
	if fd >= 0 {
		if syscall.SetNonblock(fd, true) == nil {
			c.fd = os.NewFile(uintptr(fd), "pidfd")
		} else {
			_ = syscall.Close(fd)
		}
	}
	return c, nil
}

// signal sends to the whole group; false means that the process has ended.
func (c *child) signal(sig syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	if ended, err := exited(idPid, c.pid, syscall.WNOHANG); ended || err != nil {
		return false
	}
	return syscall.Kill(-c.pid, sig) == nil
}

// wait blocks until the process has ended, kills what is left of its group, and says how it ended.
func (c *child) wait() ending {
	werr := c.awaitExit()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pid, sigKill)
	var ws syscall.WaitStatus
	_, err := retry(func() (int, error) { return syscall.Wait4(c.pid, &ws, 0, nil) })
	c.over = true
	// With its leader reaped, only others are counted. Should the number belong to somebody new by now, it just is not alone.
	alone := syscall.Kill(-c.pid, 0) == syscall.ESRCH
	if c.fd != nil {
		_ = c.fd.Close()
	}
	switch {
	case err != nil:
		return ending{err: errors.Join(werr, err)}
	case ws.Signaled():
		return ending{signal: int(ws.Signal()), alone: alone}
	}
	return ending{exit: ws.ExitStatus(), alone: alone}
}

// awaitExit returns when the process has ended; it is not reaped yet.
func (c *child) awaitExit() error {
	if c.fd != nil {
		if rc, err := c.fd.SyscallConn(); err == nil {
			var werr error
			err = rc.Read(func(fd uintptr) bool {
				var ended bool
				ended, werr = exited(idPidFD, int(fd), syscall.WNOHANG)
				return ended || werr != nil
			})
			if err == nil && werr == nil {
				return nil
			}
		}
	}
	_, err := exited(idPid, c.pid, 0)
	return err
}

// exited asks whether a child has ended and leaves it unreaped.
func exited(kind, id, options int) (bool, error) {
	var info [128]byte // siginfo_t; its first word is the signal, 0 if nothing has happened
	_, err := retry(func() (int, error) {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(&info)),
			uintptr(options|syscall.WEXITED|wNoWait), 0, 0)
		if e != 0 {
			return 0, e
		}
		return 0, nil
	})
	return info[0] != 0 || info[1] != 0 || info[2] != 0 || info[3] != 0, err
}

func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

func isNoExec(err error) bool { return errors.Is(err, syscall.ENOEXEC) }

func program(file string) (string, error) { return statProgram(file) }

func shellArguments(line string, _ variables, braces bool, item string) []string {
	return posixShell(line, braces, item)
}
