package sandbox

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Groups are control groups for processes: all that one starts is in its group, whatever it does to
// its parents, session and environment, and ends with it. They are folders of cgroup version 2
// below the group that this process is in. Methods may be called by anybody, also of a nil one,
// which has none.
type Groups struct {
	dir string

	mu   sync.Mutex
	last int      // the highest number there was
	idle []*Group // to be used again: making and removing one costs more than all else
	late []int    // to be removed: what was killed in them was not gone yet
}

// mostIdleGroups bounds the groups that are kept when nothing is in them.
const mostIdleGroups = 64

// Group is one control group, in which one process was started, or will be.
type Group struct {
	N      int // its number, from 1
	all    *Groups
	fd     int // of its folder
	events int // of the file that tells whether something is in it
}

// OpenGroups are those of whoever has this name, also of an earlier life of it; nil: none can be
// made here. The first one that is taken makes their folder.
func OpenGroups(name string) *Groups {
	own, err := ownGroup()
	if err != nil {
		return nil
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	g := &Groups{dir: filepath.Join(own, fmt.Sprintf("covey-%x", h.Sum64()))}
	if syscall.Access(own, wOK) != nil {
		return nil
	}
	for _, n := range g.numbers() {
		g.last = max(g.last, n)
	}
	return g
}

// GroupsFolder is the folder of the groups that OpenGroups opens here; "": there can be none.
func GroupsFolder(name string) string {
	if g := OpenGroups(name); g != nil {
		return g.dir
	}
	return ""
}

const wOK = 2 // W_OK

const killFile = "cgroup.kill"

// ownGroup is the folder of the control group this process is in.
func ownGroup() (string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	own := ""
	for line := range strings.Lines(string(groups)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			own = path
		}
	}
	for line := range strings.Lines(string(mounts)) {
		fields, kind, ok := strings.Cut(line, " - cgroup2 ")
		f := strings.Fields(fields)
		if !ok || kind == "" || len(f) < 5 {
			continue
		}
		const root, point = 3, 4
		if below, err := filepath.Rel(f[root], own); own != "" && err == nil && filepath.IsLocal(below) {
			return filepath.Join(f[point], below), nil
		}
	}
	return "", errors.New("there is no cgroup of version 2 to be seen")
}

func (g *Groups) path(n int) string { return filepath.Join(g.dir, strconv.Itoa(n)) }

// numbers are those of the groups that exist.
func (g *Groups) numbers() (all []int) {
	names, _ := os.ReadDir(g.dir)
	for _, e := range names {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// Take is a group in which nothing is; nil: there is none.
func (g *Groups) Acquire() *Group {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.idle); n > 0 {
		k := g.idle[n-1]
		g.idle = g.idle[:n-1]
		return k
	}
	g.last++
	if os.MkdirAll(g.path(g.last), 0o755) != nil {
		return nil
	}
	return g.open(g.last)
}

// Adopt is the group with this number, in which an earlier life of this program started a process;
// nil: there is none.
func (g *Groups) Adopt(n int) *Group {
	if g == nil || n < 1 {
		return nil
	}
	return g.open(n)
}

func (g *Groups) open(n int) *Group {
	k := &Group{N: n, all: g}
	err := syscall.Access(filepath.Join(g.path(n), killFile), wOK) // a kernel before 5.14 has none
	if err != nil {
		return nil
	}
	if k.fd, err = syscall.Open(g.path(n), oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0); err != nil {
		return nil
	}
	if k.events, err = syscall.Open(filepath.Join(g.path(n), "cgroup.events"), syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		_ = syscall.Close(k.fd)
		return nil
	}
	return k
}

// Start has a process that is forked with attr start in the group.
func (k *Group) Start(attr *syscall.SysProcAttr) { attr.UseCgroupFD, attr.CgroupFD = true, k.fd }

// empty tells whether nothing is in the group. What has ended and was not waited for does not
// count.
func (k *Group) empty() bool {
	var b [64]byte
	n, err := syscall.Pread(k.events, b[:], 0)
	return err == nil && strings.Contains(string(b[:n]), "populated 0")
}

// Over kills all that is in the group, none of which forks any more when it returns, and lets the
// group go. One in which something was killed is not used again: Linux 6.14 and later take what is
// started in it for something that was to be killed.
func (k *Group) Kill() {
	if k == nil {
		return
	}
	g, empty := k.all, k.empty()
	if !empty {
		g.kill(k.N)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if empty && len(g.idle) < mostIdleGroups {
		g.idle = append(g.idle, k)
		return
	}
	k.close()
	g.late = slices.DeleteFunc(append(g.late, k.N), g.removed)
}

func (k *Group) close() { _, _ = syscall.Close(k.fd), syscall.Close(k.events) }

// kill kills all that is in a group.
func (g *Groups) kill(n int) { _ = os.WriteFile(filepath.Join(g.path(n), killFile), []byte("1"), 0) }

// removed removes a group, and tells whether that is done with: not while something dies in it.
func (g *Groups) removed(n int) bool { return !errors.Is(syscall.Rmdir(g.path(n)), syscall.EBUSY) }

// Sweep ends what an earlier life left in groups that are not among those, and removes them.
func (g *Groups) Sweep(used map[int]bool) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range g.idle {
		k.close()
	}
	g.idle, g.late = nil, nil
	for _, n := range g.numbers() {
		if !used[n] {
			g.kill(n)
			g.late = append(g.late, n)
		}
	}
	g.late = slices.DeleteFunc(g.late, g.removed)
}

// Close ends all that is in groups and removes them, as far as what is in them is gone within three
// seconds: on a busy machine, what was killed takes its time.
func (g *Groups) Close() {
	for end := time.Now().Add(3 * time.Second); g != nil; time.Sleep(10 * time.Millisecond) {
		g.Sweep(nil)
		if len(g.numbers()) == 0 || time.Now().After(end) {
			_ = syscall.Rmdir(g.dir)
			return
		}
	}
}
