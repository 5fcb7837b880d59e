package supervise

import (
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// reaper waits for the ends of all children at once: one goroutine and no thread, however many
// there are. It is a poller of pidfds of its own, because an os.File for each would cost a short
// process more than waiting does.
type reaper struct {
	ep   *os.File // an epoll, itself watched by the runtime's
	fd   int      // of it: Fd() would make it blocking
	mu   sync.Mutex
	next map[int32]func() // by pidfd: what to do
	done chan struct{}
}

func newReaper() (*reaper, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // so that the runtime watches it
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	r := &reaper{ep: os.NewFile(uintptr(fd), "ends of processes"), fd: fd, next: map[int32]func(){}, done: make(chan struct{})}
	go r.run()
	return r, nil
}

// follow calls ended, from the reaper's goroutine, when the child has ended; it is to reap it.
// False: somebody must wait for this one.
func (r *reaper) follow(c *child, ended func()) bool {
	if c.fd < 0 {
		return false
	}
	do := ended
	if c.around != nil { // who reaps it waits for all that it started
		do = func() { go ended() }
	}
	r.mu.Lock()
	r.next[int32(c.fd)] = do
	r.mu.Unlock()
	// Once: a child that is just being forked may hold the pidfd open for a moment longer than we
	// do.
	err := syscall.EpollCtl(r.fd, syscall.EPOLL_CTL_ADD, c.fd, &syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLONESHOT, Fd: int32(c.fd)})
	if err != nil {
		r.claim(int32(c.fd))
	}
	return err == nil
}

func (r *reaper) claim(fd int32) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.next[fd]
	delete(r.next, fd)
	return f
}

func (r *reaper) run() {
	defer close(r.done)
	raw, err := r.ep.SyscallConn()
	if err != nil {
		return
	}
	var events [64]syscall.EpollEvent
	_ = raw.Read(func(ep uintptr) bool { // until close
		for {
			n, err := retry(func() (int, error) { return syscall.EpollWait(int(ep), events[:], 0) })
			if err != nil || n == 0 {
				return false
			}
			for _, ev := range events[:n] {
				if f := r.claim(ev.Fd); f != nil {
					f()
				}
			}
		}
	})
}

// close ends the goroutine. Nothing may be followed any more.
func (r *reaper) close() {
	_ = r.ep.Close()
	<-r.done
}

// forks are the processes that were started here and not reaped. The lock is held over a fork, so
// that whoever holds it knows them all. It also has one fork at a time: what a child inherits is
// this process's own until the child has it (tag_linux.go). A program on a disk that hangs is
// waited for with it held, so ends are taken note of without.
var forks = struct {
	sync.Mutex
	known sync.Mutex // guards ours, for a moment
	ours  map[int]bool
}{ours: map[int]bool{}}

// adoptOrphans has what a task started become a child of this process when its parent ends, and
// not of the machine's first process: so all processes of tasks are below their supervisor as long
// as it lives (Whose).
func adoptOrphans() {
	const set = 36 // PR_SET_CHILD_SUBREAPER
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, set, 1, 0)
}

// mostOrphans is how many ended orphans are reaped at once; the others are a second later.
const mostOrphans = 4096

// reapOrphans lets go of ended children that were not started here. It is for a supervisor: in a
// process with other children they would be lost to those who wait for them. While one of ours is
// being started none is let go of.
func reapOrphans() {
	if !forks.TryLock() {
		return
	}
	defer forks.Unlock()
	forks.known.Lock()
	defer forks.known.Unlock()
	for range mostOrphans {
		pid := endedChild()
		if pid <= 0 || forks.ours[pid] { // one of ours is reaped soon; orphans behind it, next time
			return
		}
		if _, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err != nil {
			return
		}
	}
}

// endStrays kills what became a child of this process and belongs to none of the tasks that run, by
// its tag or, without one, by its environment; and then what that started. It is for a supervisor,
// as reapOrphans is. While one of ours is being started nothing is killed.
func endStrays(running map[string]bool) {
	if len(running) > 0 && !canTag() { // a daemon of theirs has no tag
		return
	}
	tags := tagsOf(maps.Keys(running))
	for range killRounds {
		if !forks.TryLock() {
			return
		}
		killed := 0
		for _, pid := range children() {
			if endStray(pid, running, tags) {
				killed++
			}
		}
		forks.Unlock()
		if killed == 0 {
			return
		}
	}
}

// endStray kills a child that is a stray, and reports whether it did. Called with forks held.
func endStray(pid int, running map[string]bool, tags map[uint64]bool) bool {
	p, err := os.FindProcess(pid) // a pidfd: from here on the number cannot change hands unseen
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	forks.known.Lock()
	ours := forks.ours[pid]
	forks.known.Unlock()
	f := statFields(pid)
	if ours || len(f) < 2 || f[0] == "Z" || f[0] == "X" || number(f[1]) != os.Getpid() {
		return false
	}
	if tag := tagAt(pid); tags[tag] || tag == 0 && running[taskOf(pid)] {
		return false
	}
	return p.Signal(sigKill) == nil && awaitDeath(pid)
}

// children are the processes whose parent this one is.
func children() (pids []int) {
	of, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range of {
		b, _ := os.ReadFile(file)
		for _, pid := range strings.Fields(string(b)) {
			pids = append(pids, number(pid))
		}
	}
	if len(of) > 0 {
		return pids
	}
	_ = eachProcess(func(pid int) { // a kernel without that list
		if f := statFields(pid); len(f) > 1 && number(f[1]) == os.Getpid() {
			pids = append(pids, pid)
		}
	})
	return pids
}

// endedChild is a child that has ended and is not reaped, 0 if there is none.
func endedChild() int {
	const all = 0       // P_ALL
	var info [32]int32  // siginfo_t
	at := 2 + ptrSize/4 // si_pid follows three ints, aligned for a pointer
	_, _, e := syscall.Syscall6(syscall.SYS_WAITID, all, 0, uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOHANG|wNoWait, 0, 0)
	if e != 0 {
		return 0
	}
	return int(info[at])
}

// fromBelow tells whether a process of a task has connected: what it orders would be started
// without what it is kept from itself. One that cannot be told any more counts as one.
func fromBelow(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return true
	}
	below := true
	_ = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		below = err != nil || isBelow(int(cred.Pid))
	})
	return below
}

// isBelow tells whether a process descends from this one.
func isBelow(pid int) bool {
	var g glance
	for range mostAncestors {
		switch f := g.statFields(pid); {
		case g.err != nil: // it cannot be looked at
			return true
		case pid == os.Getpid():
			return true
		case pid <= 1: // 0: it is in no namespace of processes that is seen from here
			return false
		case len(f) < 2:
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) // else a system that hides processes: never its own children
		default:
			pid = number(f[1])
		}
	}
	return true
}

const ptrSize = int(unsafe.Sizeof(uintptr(0)))
