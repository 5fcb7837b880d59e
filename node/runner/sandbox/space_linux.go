package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// A space is what an Apart process has around it: it sees the processes in there and no others. The
// first process of a space is this program (first), which shows the others to each other in /proc,
// lets the system reap what lost its parent, and ends when the process ends that the space is for;
// with it ends whatever is in there. The process itself is the second, and a child of who starts
// it: its exit code, its signals and its group are as everybody's.

// Space is that of one process.
type Space struct {
	first int // pidfd of its first process
	in    int // what that reads: it ends when the process is in
}

// Of the kernel, where package syscall has no names, or not everywhere.
const (
	sysPidfdSignal = 424
	sysPidfdOpen   = 434
	idPidfd        = 3
)

// firstEnv makes a process of this program the first of a space.
const firstEnv = "COVEY_SANDBOX_FIRST"

const firstReady = "ready"

// newSpace makes one, and has what this thread forks from here on be in it. The mounts of this
// thread are the space's. once calls a function that forks.
func newSpace(once func(func() error) error) (p *Space, err error) {
	if err := syscall.Unshare(syscall.CLONE_NEWIPC); err != nil {
		return nil, os.NewSyscallError("unshare shared memory and queues", err)
	}
	var in, out [2]int
	if err := errors.Join(syscall.Pipe2(in[:], syscall.O_CLOEXEC), syscall.Pipe2(out[:], syscall.O_CLOEXEC)); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	answer := os.NewFile(uintptr(out[0]), "the first process of a space")
	defer answer.Close()
	p = &Space{first: -1, in: in[1]}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Setsid: true, PidFD: &p.first}
	if os.Geteuid() != 0 {
		attr.AmbientCaps = []uintptr{capSysAdmin}
	}
	err = once(func() error {
		_, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], "around-a-task"}, &syscall.ProcAttr{
			Dir: "/", Env: []string{firstEnv + "=1", "GOMAXPROCS=1"}, Files: []uintptr{uintptr(in[0]), uintptr(out[1]), uintptr(out[1])}, Sys: attr,
		})
		return err
	})
	_, _ = syscall.Close(in[0]), syscall.Close(out[1])
	if err != nil {
		_ = syscall.Close(p.in)
		return nil, os.NewSyscallError("start the first process of a space", err)
	}
	if said, err := io.ReadAll(answer); err != nil || string(said) != firstReady {
		p.Kill()
		return nil, fmt.Errorf("the first process of a space does not begin: %s %v", said, err)
	}
	if _, _, e := syscall.RawSyscall(sysSetns, uintptr(p.first), syscall.CLONE_NEWPID, 0); e != 0 {
		p.Kill()
		return nil, os.NewSyscallError("setns", e)
	}
	return p, nil
}

// entered says that the process is in its space.
func (p *Space) entered() {
	if p != nil {
		_ = syscall.Close(p.in)
		p.in = -1
	}
}

// Over ends all that is in the space, and returns when it has ended. The process that it is for has
// been reaped, or never was there.
func (p *Space) Kill() {
	if p == nil || p.first < 0 {
		return
	}
	if p.in >= 0 {
		_ = syscall.Close(p.in)
	}
	_, _, _ = syscall.RawSyscall6(sysPidfdSignal, uintptr(p.first), uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	for e := syscall.EINTR; e == syscall.EINTR; { // ECHILD: who reaps orphans was first
		_, _, e = syscall.Syscall6(syscall.SYS_WAITID, idPidfd, uintptr(p.first), 0, syscall.WEXITED, 0, 0)
	}
	_ = syscall.Close(p.first)
	p.first = -1
}

// Runs before main, as a supervisor does (package supervise).
var _ = first()

func first() struct{} {
	if os.Getenv(firstEnv) == "" || os.Getpid() != 1 {
		return struct{}{}
	}
	signal.Ignore() // who ends it kills it; and what loses its parent here needs nobody who waits for it
	if err := mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(firstReady)
	_, _ = os.Stdout.Close(), os.Stderr.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	awaitSecond()
	os.Exit(0)
	return struct{}{}
}

// awaitSecond waits for the end of the process that came into the space of this one from outside.
func awaitSecond() {
	dir, _ := os.ReadDir("/proc")
	for _, e := range dir {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 || parentOf(pid) != 0 {
			continue
		}
		fd, _, e := syscall.RawSyscall(sysPidfdOpen, uintptr(pid), 0, 0)
		if e != 0 {
			continue
		}
		ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
		if err != nil || syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: syscall.EPOLLIN}) != nil {
			return
		}
		for err = error(syscall.EINTR); errors.Is(err, syscall.EINTR); {
			_, err = syscall.EpollWait(ep, make([]syscall.EpollEvent, 1), -1)
		}
		return
	}
}

// parentOf is the number of a process's parent, 0 if that is not in this space, -1 if there is no
// such process.
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return -1
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])) // the name before may hold anything
	if len(f) < 2 {
		return -1
	}
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return -1
	}
	return n
}
