package supervise

import (
	"bytes"
	"iter"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// BootID is different after every start of the machine; "" if it cannot be read.
func BootID() string { return new(glance).bootID() }

func (g *glance) bootID() string {
	b, err := g.read("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// sinceBoot is the clock process start times are counted on, in milliseconds.
func sinceBoot() int64 {
	const clockBoottime = 7
	var ts syscall.Timespec
	_, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if e != 0 {
		return 0
	}
	return ts.Nano() / 1e6
}

// startedAt reads when a process started, in milliseconds since boot, to the hundredth of a second.
func startedAt(pid int) (int64, bool) {
	return startOf(statFields(pid))
}

func startOf(f []string) (int64, bool) {
	const startTime = 22 - 3 // field 22 of the line; the first of f is field 3
	if len(f) <= startTime {
		return 0, false
	}
	ticks, err := strconv.ParseInt(f[startTime], 10, 64)
	return ticks * 10, err == nil
}

// awaitDeath waits until a killed process runs no more; as long as it takes, up to a second –
// nothing follows SIGKILL but a slow disk – and tells whether that was long enough.
func awaitDeath(pid int) bool {
	for range 200 {
		if s := stateOf(pid); s == 0 || s == 'Z' || s == 'X' {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func stateOf(pid int) byte {
	f := statFields(pid)
	if len(f) == 0 {
		return 0
	}
	return f[0][0]
}

// statFields are the fields of a process's stat line from the third on; nil if there is no such
// process.
func statFields(pid int) []string { return new(glance).statFields(pid) }

// glance reads files about processes. err is the newest refusal of the system to open one: what
// was read then may look as if a process were not there.
type glance struct{ err error }

func (g *glance) read(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if Exhausted(err) {
		g.err = err
	}
	return b, err
}

func (g *glance) statFields(pid int) []string {
	b, err := g.read("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name before may hold anything
}

// killRounds bounds how often KillByEnvironment looks again: against a task that starts processes
// faster than they can be found.
const killRounds = 64

// KillByEnvironment kills every process whose environment names a task that is wanted, and tells
// how many it were. Such a process may have started another between the moment the list of
// processes was read and its end, so it looks again until none is found.
func KillByEnvironment(want func(task string) bool) (killed int) {
	return killAll(func(pid int) bool {
		id := taskOf(pid)
		return id != "" && want(id)
	})
}

// KillTasks kills every process that was started in one of these tasks, however it hides, and tells
// how many it were.
func KillTasks(tasks map[string]bool) (killed int) {
	tags := tagsOf(maps.Keys(tasks))
	return killAll(func(pid int) bool {
		if tag := tagAt(pid); tag != 0 {
			return tags[tag]
		}
		return tasks[taskOf(pid)]
	})
}

// killTagged is KillTasks for tasks of this process.
func killTagged(tasks map[string]bool) (killed int) {
	if !canTag() {
		return KillTasks(tasks)
	}
	tags := tagsOf(maps.Keys(tasks))
	return killAll(func(pid int) bool { return tags[tagAt(pid)] })
}

// termTagged asks the processes of these tasks to end, but for those in the group that goes with
// each: it was asked already.
func termTagged(tasks map[string]int) {
	tags, groups := tagsOf(maps.Keys(tasks)), map[int]bool{}
	for _, g := range tasks {
		groups[g] = true
	}
	_ = eachProcess(func(pid int) {
		if !tags[tagAt(pid)] {
			return
		}
		if g, err := syscall.Getpgid(pid); err == nil && !groups[g] {
			_ = syscall.Kill(pid, sigTerm)
		}
	})
}

func tagsOf(tasks iter.Seq[string]) map[uint64]bool {
	tags := map[uint64]bool{}
	for t := range tasks {
		tags[tagOf(t)] = true
	}
	return tags
}

func eachProcess(f func(pid int)) error {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range dir {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			f(pid)
		}
	}
	return nil
}

func killAll(match func(pid int) bool) (killed int) {
	for range killRounds {
		n, died := killListed(match)
		killed += n
		if !died {
			break
		}
	}
	return killed
}

// killListed kills those on the list of processes as it is now. died tells whether one of them was
// seen to end.
func killListed(match func(pid int) bool) (killed int, died bool) {
	_ = eachProcess(func(pid int) {
		if !match(pid) {
			return
		}
		p, err := os.FindProcess(pid) // a pidfd: from here on the number cannot change hands unseen
		if err != nil {
			return
		}
		if match(pid) && p.Signal(sigKill) == nil {
			died = awaitDeath(pid) || died
			killed++
		}
		_ = p.Release()
	})
	return killed, died
}

func taskOf(pid int) string {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte("COVEY_TASK=")); ok {
			return string(v)
		}
	}
	return ""
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
