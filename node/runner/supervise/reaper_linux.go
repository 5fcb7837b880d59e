package supervise

import (
	"os"
	"sync"
	"syscall"
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
	r.mu.Lock()
	r.next[int32(c.fd)] = ended
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
