package supervise

import (
	"runtime"
	"syscall"
	"time"
)

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
