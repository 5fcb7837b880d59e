package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// mostAncestors is how far up a process is followed.
const mostAncestors = 1024

// Whose tells whether a process belongs to a task of the peer with this tasks folder, and to which.
// It goes by the process's ancestors, of which a process cannot choose another: the first process
// of a task, or, above what has lost its parents, the supervisor. Then task is "", as it is when
// only the inherited limit tells, which a process can change: it is some task's.
//
// An error says that the process cannot be looked at any more, or not now (Exhausted).
func Whose(dir string, pid int) (task string, inside bool, err error) {
	var g glance
	task, inside, err = g.whose(dir, pid)
	if g.err != nil { // what could not be read may be what tells it
		return "", true, g.err
	}
	return task, inside, err
}

func (g *glance) whose(dir string, pid int) (task string, inside bool, err error) {
	firsts, err := g.firstProcesses(dir)
	if err != nil {
		return "", false, err
	}
	tags := map[uint64]bool{}
	for _, r := range firsts {
		tags[tagOf(r.task)] = true
	}
	tagged, younger := false, int64(0)
	for n := 0; pid > 1; n++ {
		f := g.statFields(pid)
		at, ok := startOf(f)
		switch {
		case !ok && n > 0 && errors.Is(syscall.Kill(pid, 0), syscall.EPERM):
			return "", tagged, nil // another user's, of whom nothing can be seen: no task's
		case !ok || n == mostAncestors || n > 0 && at > younger:
			return "", true, errors.New("its parents ended while they were looked at")
		case firsts[pid].began(at):
			return firsts[pid].task, true, nil
		case g.supervises(pid, dir):
			return "", true, nil
		}
		tagged = tagged || tags[g.tagAt(pid)]
		const parent = 4 - 3 // field 4 of the line; the first of f is field 3
		pid, younger = number(f[parent]), at
	}
	return "", tagged, nil
}

// firstProcesses are the first processes of the tasks that run, as the supervisor has noted them.
func (g *glance) firstProcesses(dir string) (map[int]record, error) {
	b, err := g.read(filepath.Join(dir, runningFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	boot, firsts := g.bootID(), map[int]record{}
	for ; len(b) >= recordSize; b = b[recordSize:] {
		if r, ok := parseRecord(string(b[:recordSize])); ok && r.pid > 1 && r.boot == boot {
			firsts[r.pid] = r
		}
	}
	return firsts, nil
}

// began tells whether the process that was started then is the one the record speaks of.
func (r record) began(at int64) bool {
	return r.pid > 1 && at >= r.before-startSlack && at <= r.after+startSlack
}

// supervises tells whether a process is a supervisor of this folder: by its command, and by the
// folder it works in, which may have been moved since. A process that only makes itself look like
// one takes itself for a task's.
func (g *glance) supervises(pid int, dir string) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	its, ok := g.supervised(proc)
	if !ok {
		return false
	}
	works, err := os.Stat(proc + "/cwd")
	if err != nil {
		return its == dir
	}
	ours, err := os.Stat(dir)
	return err == nil && os.SameFile(works, ours)
}

// supervised is the tasks folder that a supervisor was started for.
func (g *glance) supervised(proc string) (dir string, ok bool) {
	b, err := g.read(proc + "/cmdline")
	args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
	if err != nil || len(args) != 3 || args[1] != beginWord {
		return "", false
	}
	return args[2], true
}

// Supervised tells whether a supervisor lives that was started for this tasks folder, under this
// name of it. The folder may be gone.
func Supervised(dir string) bool {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	return slices.ContainsFunc(procs, func(proc string) bool {
		its, ok := new(glance).supervised(proc)
		return ok && its == dir
	})
}
