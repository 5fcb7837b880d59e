package supervise

import (
	"hash/fnv"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// A task's processes are known by a limit they inherit: a process started in a task has the soft
// RLIMIT_RTTIME that was set when the task was forked, whatever session, group, parent and
// environment it gives itself. The limit is for processes with a real-time policy only, and the
// value is tens of thousands of years. Where the limit cannot be raised (somebody lowered the hard
// one), only the environment tells (docs/adr/0013).
const rlimitRTTime = 15

type rlimit struct{ cur, max uint64 }

// tagOf is the value for a task: the same in every supervisor.
func tagOf(task string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(task))
	return 1<<62 | h.Sum64()>>3
}

// limitOf reads, and if set is given sets, the limit of a process; 0 is this one.
func limitOf(pid int, set *rlimit) (old rlimit, ok bool) {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), rlimitRTTime, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(&old)), 0, 0)
	return old, e == 0
}

// withTag calls f, which forks, with a task's tag. It holds forks.
func withTag(task string, f func() error) error {
	forks.Lock()
	defer forks.Unlock()
	old, ok := limitOf(0, nil)
	if ok && old.max == math.MaxUint64 {
		if _, ok = limitOf(0, &rlimit{cur: tagOf(task), max: old.max}); ok {
			defer limitOf(0, &old)
		}
	}
	return f()
}

// canTag tells whether the limit can be raised.
func canTag() bool {
	l, ok := limitOf(0, nil)
	return ok && l.max == math.MaxUint64
}

// tagAt is the tag of a process, 0 if it has none or may not be asked.
func tagAt(pid int) uint64 { return new(glance).tagAt(pid) }

func (g *glance) tagAt(pid int) uint64 {
	l, ok := limitOf(pid, nil)
	if !ok && os.Geteuid() == 0 {
		l.cur, ok = g.limitRead(pid)
	}
	if ok && l.cur>>62 == 1 {
		return l.cur
	}
	return 0
}

// limitRead is the same limit as everybody may read it: a root without CAP_SYS_RESOURCE, as in
// containers, may not ask for that of a task which has a user of its own.
func (g *glance) limitRead(pid int) (cur uint64, ok bool) {
	b, err := g.read("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0, false
	}
	_, line, _ := strings.Cut(string(b), "Max realtime timeout")
	f := strings.Fields(line)
	if len(f) == 0 {
		return 0, false
	}
	cur, err = strconv.ParseUint(f[0], 10, 64)
	return cur, err == nil
}
