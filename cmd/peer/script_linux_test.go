package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// programs are what this test binary is under other names.
func programs() map[string]func() { return map[string]func(){"peer": main, "drowsy": drowsyMain} }

// childAttr lets a child end with the test, however that ends.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// killBelow kills every process that works in a folder below dir: detached peers, and tasks of
// peers that were killed.
func killBelow(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, l := range links {
		at, err := os.Readlink(l)
		if err != nil || !strings.HasPrefix(at+"/", dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(l))); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func mountTmpfs(dir, size string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size)
}

// bindReadOnly has a folder take no writes, of those that come to it from now on.
func bindReadOnly(dir string) error {
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// canMountTmpfs tries it: being root is not enough in most containers.
func canMountTmpfs() bool {
	dir, err := os.MkdirTemp("", "covey-mount-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if mountTmpfs(dir, "64k") != nil {
		return false
	}
	return unmount(dir) == nil
}

// disk is a file system of its own in a file, which can be made to fail in ways that nothing else
// can.
type disk struct{ dir, image, device string }

// makeDisk makes and mounts one. It goes read-only by itself at the first error, as most are
// mounted.
func makeDisk(dir string, size int64) (*disk, error) {
	d := &disk{dir: dir, image: dir + ".image"}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return nil, err
	}
	for _, line := range [][]string{
		{"mkfs.ext4", "-q", "-F", d.image}, {"mount", "-o", "loop,errors=remount-ro", d.image, dir},
	} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("%v: %w: %s", line, err, out), os.Remove(d.image))
		}
	}
	out, err := exec.Command("findmnt", "-no", "SOURCE", dir).Output()
	d.device = filepath.Base(strings.TrimSpace(string(out)))
	return d, err
}

// breakDown reports an error of the file system to itself: it goes read-only, under the feet of
// those who write to it.
func (d *disk) breakDown() error {
	return os.WriteFile(filepath.Join("/sys/fs/ext4", d.device, "trigger_fs_error"), []byte("1"), 0o600)
}

// Of ioctl(2), for file systems: writes wait from one to the other.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

func (d *disk) freeze() error { return d.ioctl(fiFreeze) }
func (d *disk) thaw() error   { return d.ioctl(fiThaw) }

func (d *disk) ioctl(request uintptr) error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, 0); e != 0 {
		return e
	}
	return nil
}

// remove takes it away, whatever state it is in.
func (d *disk) remove() {
	_ = d.thaw()
	_ = unmount(d.dir)
	_ = os.Remove(d.image)
}

// canMakeDisks tries it, with all that is done to disks.
func canMakeDisks() bool {
	dir, err := os.MkdirTemp("", "covey-disk-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	d, err := makeDisk(dir, 4<<20)
	if err != nil {
		return false
	}
	defer d.remove()
	return d.freeze() == nil && d.thaw() == nil && d.breakDown() == nil
}

// movedBytes is what a process has read and written, sockets included.
func movedBytes(pid int) (read, written int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err == nil {
		_, err = fmt.Sscanf(string(b), "rchar: %d\nwchar: %d", &read, &written)
	}
	return read, written, err
}

// limitFiles bounds how many files a process may have open.
func limitFiles(pid int, n uint64, hard bool) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return err
	}
	most := old.Max
	if hard {
		most = min(n, most)
	}
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(n, old.Max), Max: most}, nil)
}
