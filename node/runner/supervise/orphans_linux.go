package supervise

import (
	"sync"
	"syscall"
	"unsafe"
)

// forks are the processes that were started here and not reaped. The lock is held over a fork, so
// that whoever holds it knows them all. It also has one fork at a time: what a child inherits is
// this process's own until the child has it (tag_linux.go).
var forks = struct {
	sync.Mutex
	ours map[int]bool
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
// process with other children they would be lost to those who wait for them.
func reapOrphans() {
	forks.Lock()
	defer forks.Unlock()
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

const ptrSize = int(unsafe.Sizeof(uintptr(0)))
