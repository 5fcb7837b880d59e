package doctor

import (
	"fmt"
	"strings"
	"time"
)

// Others wait for the disk of one that decides: for half of what it writes so long is too slow, or
// slowest for one in a hundred, which a busy machine now and then reaches. Nothing works well on an
// awful one.
const (
	slowSync    = 50 * time.Millisecond
	slowestSync = 250 * time.Millisecond
	awfulSync   = 2 * time.Second
)

func (l *list) sync(s Sync) {
	took := fmt.Sprintf("half of %d writes are on its disk within %s, and 99 %% within %s", s.Tries, span(s.P50), span(s.P99))
	switch {
	case s.Failed != "":
		l.fail("sync", "look at that disk", "nothing can be written to its disk: %s", s.Failed)
	case s.P50 > awfulSync:
		l.fail("sync", "look at that disk, and at what else writes to it", "%s", took)
	case s.Votes && (s.P50 > slowSync || s.P99 > slowestSync):
		l.warn("sync", "have another machine vote instead (`peer roles`), or move its data folder to a faster disk", "%s: this peer should not vote", took)
	default:
		l.ok("sync", "%s", took)
	}
}

// A disk is nearly full when less than a tenth is free, and less than so many bytes.
const (
	nearlyShare = 10
	nearlyFull  = 5 << 30
)

func (l *list) room(dir string, r Room) {
	do := "make room on the disk with " + dir
	switch {
	case r.ReadOnly:
		l.fail("room", "check that disk, and mount it for writing", "its disk is read-only")
	case r.Free < r.LowLimit:
		l.fail("room", do, "its disk is full: %s are free of %s, and below %s it takes no tasks", size(r.Free), size(r.Total), size(r.LowLimit))
	case r.Inodes < r.LowFiles:
		l.fail("room", "remove files from the disk with "+dir, "its disk has next to no inodes left: %d are free of %d, and below %d it takes no tasks", r.Inodes, r.AllInodes, r.LowFiles)
	case r.Free < r.Total/nearlyShare && r.Free < nearlyFull:
		l.warn("room", do, "its disk is nearly full: %s are free of %s", size(r.Free), size(r.Total))
	default:
		l.ok("room", "%s of %s are free on its disk", size(r.Free), size(r.Total))
	}
}

func (l *list) folder(dir string, d Folder) {
	switch {
	case d.Owner != d.User:
		l.fail("folder", fmt.Sprintf("chown -R %s %s, or run the peer as %s", d.User, dir, d.Owner), "the data folder belongs to %s, and the peer runs as %s", d.Owner, d.User)
	case d.Open:
		l.fail("folder", "chmod go-w "+dir, "others can write to the data folder (%s)", d.Mode)
	case d.Network:
		l.fail("folder", "put it on a disk of this machine: `peer up --data DIR`", "the data folder is on another machine's disk (%s), where neither locks nor writes hold what they promise", d.FS)
	case d.Memory:
		l.warn("folder", "put it on a disk: `peer up --data DIR`", "the data folder is in memory (%s): with this machine's power its key is gone, and what it promised", d.FS)
	default:
		l.ok("folder", "%s", strings.TrimSuffix(fmt.Sprintf("the data folder is its own (%s) and on a disk of this machine, %s", d.Mode, d.FS), ", "))
	}
}

// A peer needs a file for each connection and about three for each task, and its tasks need
// processes.
const (
	littleFiles     = 4096
	tooFewFiles     = 256
	littleProcesses = 1024
)

func (l *list) limits(m Limits) {
	const do = "raise it: LimitNOFILE=65536 and LimitNPROC=infinity in its systemd unit, or `ulimit -n 65536 -u unlimited` before `peer up`"
	switch {
	case m.Files != 0 && m.Files < tooFewFiles:
		l.fail("limits", do, "it may open %d files only: a few peers and tasks use them up", m.Files)
	case m.Files != 0 && m.Files < littleFiles:
		l.warn("limits", do, "it may open %d files: hundreds of tasks at once use them up", m.Files)
	case m.Processes != 0 && m.Processes < littleProcesses:
		l.warn("limits", do, "its user may have %d processes, those of tasks among them", m.Processes)
	default:
		l.ok("limits", "it may open %s files, and its user may have %s processes", count(m.Files), count(m.Processes))
	}
}

func count(n uint64) string {
	if n == 0 {
		return "any number of"
	}
	return fmt.Sprint(n)
}

func (l *list) cgroup(c Cgroup) {
	if c.Made {
		l.ok("cgroup", "its tasks have cgroups of their own, so that all they start ends with them")
		return
	}
	why := ""
	if c.Why != "" {
		why = " (" + c.Why + ")"
	}
	l.warn("cgroup", "Delegate=yes in its systemd unit, on a machine with cgroup v2; in a container, a cgroup that it may write to",
		"its tasks have no cgroups%s: what they are limited to is a promise", why)
}
