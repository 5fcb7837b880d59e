package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drowsySlack is how late timers of a peer may be. The Go runtime has a thread that looks every 20
// µs what the others do as long as one of them is busy, and an idle peer is busy for moments, at
// each packet and timer. With the slack that Linux gives every process, 50 µs, that thread, and
// timers that come too early and are set again, are a quarter of what an idle peer costs, and a
// tenth of what a busy one does. A larger slack saves little more, and a goroutine whose processor
// waits for a disk is helped so much later.
const drowsySlack = time.Millisecond

// drowse gives this process drowsySlack. Threads inherit it when they are made, and the runtime's
// are made before main: so the program is started anew, as the same process, with the same words,
// which takes some 20 ms. What cannot be had is done without: it only costs more. It returns at
// once in a process that has it already. ctx is what SIGTERM ends; from here on, that ends the
// process.
func drowse(ctx context.Context) {
	if timerSlack() >= drowsySlack {
		return
	}
	exe, err := os.Executable() // not /proc/self/exe, or the process would be called "exe"
	if err != nil {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(drowsySlack), 0, 0, 0)
	if timerSlack() < drowsySlack { // a real-time process has none: it would be started anew for ever
		return
	}
	signal.Reset(syscall.SIGTERM)
	if ctx.Err() == nil {
		_ = syscall.Exec(exe, os.Args, os.Environ())
	}
}

// timerSlack is the calling thread's.
func timerSlack() time.Duration {
	s, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return time.Duration(s)
}
