package sandbox

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// place is where a process is to be: namespaces that a thread goes into before it forks.
type place struct {
	key      string
	mnt, net int // descriptors of them, -1: where it is anyway
}

// here is where this thread is.
func here(mnt, net bool) (p place, err error) {
	p = place{mnt: -1, net: -1}
	if mnt {
		p.mnt, err = syscall.Open("/proc/thread-self/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	if net && err == nil {
		p.net, err = syscall.Open("/proc/thread-self/ns/net", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		p.close()
		return p, os.NewSyscallError("open a namespace", err)
	}
	return p, nil
}

// mounted tells whether the process has other mounts than who starts it, and elsewhere whether it
// is in any other namespace that a thread can go into.
func (s *Spec) mounted() bool   { return len(s.Hide) > 0 && !s.Rules || s.Apart }
func (s *Spec) elsewhere() bool { return s.mounted() || s.NoNet }

// depart takes this thread to where the process is to be.
func (s *Spec) depart() error {
	if !s.elsewhere() {
		return nil
	}
	if _, err := outside(); err != nil {
		return err
	}
	if s.Alike {
		return shared.enter(s)
	}
	return s.unshare()
}

// outside is where this process is. It is first asked for before any thread goes elsewhere.
var outside = sync.OnceValues(func() (place, error) { return here(true, true) })

// enter takes this thread there, for as much of it as s is about.
func (p place) enter(s *Spec) error {
	if s.mounted() {
		if err := syscall.Unshare(syscall.CLONE_FS); err != nil { // who shares its folder with other threads may not go
			return os.NewSyscallError("unshare the folder", err)
		}
		if _, _, e := syscall.RawSyscall(sysSetns, uintptr(p.mnt), syscall.CLONE_NEWNS, 0); e != 0 {
			return os.NewSyscallError("setns", e)
		}
	}
	if s.NoNet {
		if _, _, e := syscall.RawSyscall(sysSetns, uintptr(p.net), syscall.CLONE_NEWNET, 0); e != 0 {
			return os.NewSyscallError("setns", e)
		}
	}
	return nil
}

func (p place) close() {
	for _, fd := range []int{p.mnt, p.net} {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
	}
}

// places are those that were made last, for processes that are alike.
type places struct {
	mu  sync.Mutex
	all []place
}

var shared places

const mostPlaces = 8

// enter takes this thread to where processes like that of s are, which is made for the first.
func (o *places) enter(s *Spec) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := s.place()
	i := slices.IndexFunc(o.all, func(p place) bool { return p.key == key })
	if i >= 0 {
		p := o.all[i]
		o.all = append(slices.Delete(o.all, i, i+1), p) // the one that was needed longest ago comes first
		return p.enter(s)
	}
	if err := s.unshare(); err != nil {
		return err
	}
	p, err := here(s.mounted(), s.NoNet)
	if err != nil {
		return err
	}
	if p.key = key; len(o.all) >= mostPlaces {
		o.all[0].close()
		o.all = slices.Delete(o.all, 0, 1)
	}
	o.all = append(o.all, p)
	return nil
}

// place names where the process of s is to be by what is seen there, and without a network by whom:
// processes in one place reach each other's abstract sockets.
func (s *Spec) place() string {
	key := strconv.FormatBool(s.NoNet)
	if s.NoNet && s.User != nil {
		key += strconv.Itoa(s.User.UID)
	}
	if !s.mounted() {
		return key
	}
	key += "\x00" + strings.Join(s.Hide, "\x00")
	for _, p := range s.Show { // another file of this name would not be seen there
		var st syscall.Stat_t
		_ = syscall.Stat(p, &st)
		key += "\x00" + p + strconv.FormatUint(st.Ino, 36)
	}
	return key
}
