package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// orphan is a process of a supervisor that was killed: it is nobody's child here, so its exit code
// is not to be had.
type orphan struct {
	pid int
	at  int64 // its start, milliseconds since boot
	p   *os.Process
}

// orphanLook is how often an orphan is looked at: there is no signal when it ends.
const orphanLook = 50 * time.Millisecond

var errUnseen = errors.New("its exit code was not observed: the supervisor it belonged to was killed")

// startSlack is how far the start of a process may be from what was noted: two ticks, in
// milliseconds.
const startSlack = 20

// findOrphan finds the process a record tells of, if it still is that process: who got its number
// later started later, or on another boot.
func findOrphan(rec record) (process, bool) {
	if rec.pid <= 1 || rec.boot == "" || rec.boot != BootID() {
		return nil, false
	}
	p, err := os.FindProcess(rec.pid) // a pidfd: from here on the number cannot change hands unseen
	if err != nil {
		return nil, false
	}
	o := &orphan{pid: rec.pid, p: p}
	var ok bool
	if o.at, ok = startedAt(rec.pid); !ok || !rec.began(o.at) || !o.alive() {
		_ = p.Release()
		return nil, false
	}
	return o, true
}

func (o *orphan) alive() bool {
	if o.p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	s := stateOf(o.pid)
	return s != 0 && s != 'Z' && s != 'X'
}

func (o *orphan) signal(sig syscall.Signal) bool {
	return o.alive() && syscall.Kill(-o.pid, sig) == nil
}

func (o *orphan) group() int { return o.pid }

func (o *orphan) wait() ending {
	for o.alive() {
		time.Sleep(orphanLook)
	}
	_ = o.p.Release()
	// Its group: while it has members, its number is nobody else's, and a process of ours led it.
	if taskGroup(o.pid) {
		_ = syscall.Kill(-o.pid, sigKill)
	}
	return ending{err: errUnseen}
}

// taskGroup tells whether a process of the group still carries a task's name in its environment.
func taskGroup(pgid int) bool {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range dir {
		pid := number(e.Name())
		if pid < 2 {
			continue
		}
		if f := statFields(pid); len(f) > 2 && number(f[2]) == pgid && taskOf(pid) != "" {
			return true
		}
	}
	return false
}
