package supervise

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// Of waitid(2).
const (
	idPid   = 1
	wNoWait = 0x1000000
)

// child is a started process, the leader of its own group. It is syscall.ForkExec with a pidfd
// instead of os.Process, because the end must be seen before the process is reaped – only so long
// its number is safe to signal – and because waiting for all at once costs neither thread nor
// goroutine.
type child struct {
	pid  int
	fd   int // pidfd, -1 if the kernel has none
	held sandbox.Confined
	// around is the space of one that sees no others, nil for all else.
	around *sandbox.Space
	mu     sync.Mutex
	// over means reaped: the number may belong to somebody else.
	over bool
}

func spawn(s spec) (*child, error) {
	c := &child{fd: -1, held: s.box.Held()}
	once := func(f func() error) error { return withTag(s.task, f) }
	err := sandbox.Run(s.box, once, func(attr *syscall.SysProcAttr, around *sandbox.Space) error {
		c.around = around
		return once(func() error {
			return withSlack(taskSlack, func() error { return c.fork(s, attr) })
		})
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// fork is called with forks held.
func (c *child) fork(s spec, attr *syscall.SysProcAttr) (err error) {
	sandbox.DropNamespaceCaps()
	attr.Setpgid, attr.PidFD = true, &c.fd
	how := &syscall.ProcAttr{
		Dir: s.dir, Env: s.env, Files: []uintptr{s.stdin.Fd(), uintptr(s.stdout), uintptr(s.stderr)},
		Sys: attr,
	}
	if s.group != nil {
		s.group.Start(attr)
		if c.pid, err = s.box.Fork(s.path, s.argv, how); err == nil {
			c.held |= sandbox.ConfinedGroup
		}
		attr.UseCgroupFD = false
	}
	if _, must := s.box.Grouped(); s.group == nil || err != nil && !must { // in a group that somebody took away it would not start
		c.pid, err = s.box.Fork(s.path, s.argv, how)
	}
	if err != nil {
		c.closeFD() // one that could not be limited has left its own
		return err
	}
	forks.known.Lock() // who reaps one whose number this was is done with it
	defer forks.known.Unlock()
	forks.ours[c.pid] = true
	return nil
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

// wait blocks until the process has ended and reaps it.
func (c *child) wait() ending {
	_, err := exited(idPid, c.pid, 0)
	return c.reap(err)
}

// reap is called when the process has ended: it ends what is left of its group and around it, and
// says how it ended. werr is why that could not be awaited.
func (c *child) reap(werr error) ending {
	how := c.reapAlone(werr)
	c.around.Kill() // without the lock: what is stuck on a disk ends late
	return how
}

func (c *child) reapAlone(werr error) ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pid, sigKill)
	var ws syscall.WaitStatus
	forks.known.Lock()
	_, err := retry(func() (int, error) { return syscall.Wait4(c.pid, &ws, 0, nil) })
	delete(forks.ours, c.pid)
	forks.known.Unlock()
	c.over = true
	// With its leader reaped, only others are counted. Should the number belong to somebody new by
	// now, it just is not alone.
	alone := syscall.Kill(-c.pid, 0) == syscall.ESRCH
	c.closeFD()
	switch {
	case err != nil:
		return ending{err: errors.Join(werr, err)}
	case ws.Signaled():
		return ending{signal: int(ws.Signal()), alone: alone}
	}
	return ending{exit: ws.ExitStatus(), alone: alone}
}

func (c *child) closeFD() {
	if c.fd >= 0 {
		_ = syscall.Close(c.fd)
	}
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

// How late timers may be. The Go runtime has a thread that looks every 20 µs what the others do as
// long as one of them is busy, and a supervisor is busy for moments: with the usual slack that
// thread costs a quarter of all the supervisor does, with 1 ms an eighth. It is also the thread
// that notices a disk that does not answer, so much later. A task gets the usual slack again.
const (
	ownSlack  = 2 * time.Millisecond
	taskSlack = 50 * time.Microsecond // what Linux gives every process
)

// withSlack calls f, which starts a process, with a timer slack for that process: it is inherited
// from the thread that forks.
func withSlack(slack time.Duration, f func() error) error {
	const set = 29 // PR_SET_TIMERSLACK
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, set, uintptr(slack), 0) // only a wish
	return f()
}
