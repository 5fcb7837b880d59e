package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// drowsyMain says how each of its lives began, and how the last went on.
func drowsyMain() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("begins", os.Getpid(), int64(timerSlack()), os.Args[1:])
	drowse(ctx)
	fmt.Println("goes on", os.Getpid(), int64(timerSlack()))
}

// runDrowsy runs it with a timer slack, and returns its pid and what it said.
func runDrowsy(t *testing.T, slack time.Duration) (pid int, said string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // whose slack is inherited; not unlocked: the thread ends with this goroutine
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := &exec.Cmd{Path: exe, Args: []string{"drowsy", "one", "two words"}, Stdout: &out, Stderr: os.Stderr, SysProcAttr: childAttr()}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, out.String()
}

func TestAPeerStartsOnceAnewSoThatAllItsTimersMayBeLate(t *testing.T) {
	pid, got := runDrowsy(t, 50*time.Microsecond)
	want := fmt.Sprintf("begins %d 50000 [one two words]\nbegins %[1]d %d [one two words]\ngoes on %[1]d %[2]d\n", pid, int64(drowsySlack))
	if got != want {
		t.Errorf("it said\n%swant\n%s", got, want)
	}
}

func TestAPeerWhoseTimersMayBeLaterStillStartsOnlyOnce(t *testing.T) {
	pid, got := runDrowsy(t, 3*time.Millisecond)
	want := fmt.Sprintf("begins %d 3000000 [one two words]\ngoes on %[1]d 3000000\n", pid)
	if got != want {
		t.Errorf("it said\n%swant\n%s", got, want)
	}
}
