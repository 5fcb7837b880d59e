package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// rlimits are the system's numbers of limits.
var rlimits = map[LimitOf]int{LimitFiles: syscall.RLIMIT_NOFILE, LimitProcesses: 6, LimitCore: syscall.RLIMIT_CORE, LimitFileSize: syscall.RLIMIT_FSIZE}

// Fork starts a process that is held to s.Limits from its first instruction on: it is stopped
// there, as one that is traced, until it has them. It is for what Run calls.
func (s *Spec) Fork(path string, argv []string, how *syscall.ProcAttr) (pid int, err error) {
	if s == nil || len(s.Limits) == 0 {
		return syscall.ForkExec(path, argv, how)
	}
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	how.Sys.Ptrace = true
	if pid, err = syscall.ForkExec(path, argv, how); err != nil {
		return 0, err
	}
	if err := s.limit(pid); err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = wait(pid)
		return 0, fmt.Errorf("it cannot be held to its limits: %v", err) // not the error itself, as in Run
	}
	return pid, nil
}

func (s *Spec) limit(pid int) error {
	end, err := wait(pid)
	switch {
	case err != nil:
		return err
	case !end.Stopped():
		return errors.New("it ended before it had them")
	}
	for _, l := range s.Limits {
		old, err := limitOf(pid, l.Of, nil)
		if err != nil {
			return err
		}
		most := min(l.Max, old.Max) // what it has already may be less
		if _, err := limitOf(pid, l.Of, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return syscall.PtraceDetach(pid)
}

// limitOf reads a limit of a process, and sets it if one is given.
func limitOf(pid int, of LimitOf, set *syscall.Rlimit) (old syscall.Rlimit, err error) {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(rlimits[of]), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(&old)), 0, 0)
	if e != 0 {
		return old, e
	}
	return old, nil
}

func wait(pid int) (end syscall.WaitStatus, err error) {
	for err = error(syscall.EINTR); errors.Is(err, syscall.EINTR); {
		_, err = syscall.Wait4(pid, &end, syscall.WALL, nil)
	}
	return end, err
}
