package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// Of the kernel, where package syscall has no names.
const (
	oPath           = 0x200000
	prSetNoNewPrivs = 38
	prCapAmbient    = 47
	ambientClearAll = 4
	capSysChroot    = 18
	capSysAdmin     = 21
)

// Run calls fork, which starts the process, from a thread that is kept from what s says. s may be
// nil: fork is called from any thread. fork starts with attr, to which it may add. Who has seen the
// end of the process calls Over of its space, which is nil for one that is not Apart. once calls a
// function that forks on the process's behalf; nil: it is just called.
func Run(s *Spec, once func(func() error) error, fork func(attr *syscall.SysProcAttr, around *Space) error) error {
	if s == nil {
		return fork(&syscall.SysProcAttr{}, nil)
	}
	if once == nil {
		once = func(f func() error) error { return f() }
	}
	done := make(chan error)
	w := idle.take(s.NNP)
	if w == nil {
		w = &worker{nnp: s.NNP, jobs: make(chan func() (again bool))}
		go w.run()
	}
	w.jobs <- func() bool {
		around, err := s.enter(once)
		if err != nil {
			err = confineError(err)
		} else {
			err = fork(s.attr(), around)
		}
		if around.entered(); err != nil {
			around.Kill()
		}
		again := s.leave() == nil
		done <- err
		return again
	}
	return <-done
}

// confineError is an error of what a process is to be kept from. It is not the system's error
// itself: what executing the program fails with means something else. A limit of the machine, which
// is ENOSPC for namespaces, is what Exhausted knows.
func confineError(err error) error {
	const what = "it cannot be kept from what it must not reach: "
	if Exhausted(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) {
		return fmt.Errorf(what+"%v: %w", err, syscall.EAGAIN)
	}
	return fmt.Errorf(what+"%v", err)
}

// worker is a thread that goes where one process is to be, and back, and then where another is to
// be.
type worker struct {
	nnp  bool // what it has done that cannot be taken back
	jobs chan func() (again bool)
}

func (w *worker) run() {
	runtime.LockOSThread() // and never unlocks: the runtime ends the thread with the goroutine
	for job := range w.jobs {
		if !job() || !idle.put(w) {
			return
		}
	}
}

// workers are those that have nothing to do, as many as help.
type workers struct {
	mu  sync.Mutex
	all []*worker
}

var idle workers

const mostIdle = 8

func (o *workers) take(nnp bool) *worker {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, w := range o.all {
		if w.nnp == nnp {
			o.all = slices.Delete(o.all, i, i+1)
			return w
		}
	}
	return nil
}

func (o *workers) put(w *worker) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) >= mostIdle { // the one that was needed longest ago goes
		close(o.all[0].jobs)
		o.all = slices.Delete(o.all, 0, 1)
	}
	o.all = append(o.all, w)
	return true
}

// leave goes back to where this thread came from. An error is that it cannot be used again.
func (s *Spec) leave() error {
	if s.restricted() || s.Apart {
		return errors.New("there is no way back")
	}
	if !s.elsewhere() {
		return nil
	}
	home, err := outside()
	if err != nil {
		return err
	}
	return home.enter(s)
}

func (s *Spec) attr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if s.User != nil {
		a.Credential = &syscall.Credential{Uid: uint32(s.User.UID), Gid: uint32(s.User.GID), Groups: []uint32{}}
	}
	return a
}

// enter keeps this thread from what s says. Nothing can be mounted any more under rules on files,
// so these come last.
func (s *Spec) enter(once func(func() error) error) (around *Space, err error) {
	if err := s.depart(); err != nil {
		return nil, err
	}
	if s.Apart {
		if around, err = newSpace(once); err != nil {
			return nil, err
		}
	}
	return around, s.restrict()
}

// unshare makes what this thread is in from here on, and nobody else.
func (s *Spec) unshare() error {
	if s.NoNet {
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare the network", err)
		}
	}
	if s.mounted() {
		return s.mounts()
	}
	return nil
}

func (s *Spec) restrict() error {
	if s.NNP || s.restricted() {
		if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); e != 0 {
			return os.NewSyscallError("prctl no_new_privs", e)
		}
	}
	if len(s.Hide) > 0 && s.Rules {
		if err := s.hideByRules(); err != nil {
			return err
		}
	}
	if s.Closed {
		return s.closeFiles()
	}
	return nil
}

// DropNamespaceCaps lets go of what InUserNamespace gave this thread to hand on: a process that it
// starts has none of it. A thread that has nothing of it is left as it is.
func DropNamespaceCaps() {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prCapAmbient, ambientClearAll, 0, 0, 0, 0)
}

// InUserNamespace makes a process that root did not start be born where it may mount for what it
// starts, in a user namespace with its own user only.
func InUserNamespace(attr *syscall.SysProcAttr) {
	if os.Geteuid() == 0 {
		return
	}
	attr.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = []uintptr{capSysAdmin, capSysChroot}
}

// shown is what stays to be seen of what is hidden.
type shown struct {
	path string
	fd   int
	dir  bool
	link string // where a symbolic link leads
}

// mounts hides what is to be hidden, in a mount namespace that from here on is this thread's.
func (s *Spec) mounts() (err error) {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if os.Geteuid() == 0 { // nothing that is mounted here is to be seen elsewhere; what is unmounted there goes here
		if err := mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
			return err
		}
	}
	all := map[string]shown{}
	defer func() {
		for _, o := range all {
			_ = syscall.Close(o.fd)
		}
	}()
	for _, p := range s.Show { // before they are hidden, and in this namespace
		o, err := look(p)
		if errors.Is(err, syscall.ENOENT) || all[p].path != "" {
			continue
		}
		if err != nil {
			return err
		}
		all[p] = o
	}
	hidden := map[string]bool{}
	for _, p := range slices.Sorted(slices.Values(slices.Concat(s.Hide, s.Show))) { // a folder comes before what is in it
		if o, shows := all[p]; shows {
			err = o.show()
		} else if slices.Contains(s.Hide, p) && !hidden[p] {
			err = mount("covey", p, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0711,size=64k")
			hidden[p] = err == nil
			if errors.Is(err, syscall.ENOENT) && s.Hidden(p) { // what it is in is hidden
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	for h, is := range hidden {
		if !is {
			continue
		}
		if err := mount("", h, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, ""); err != nil {
			return err
		}
	}
	return nil
}

func look(path string) (o shown, err error) {
	o.path = path
	if o.fd, err = syscall.Open(path, oPath|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0); err != nil {
		return o, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(o.fd, &st); err != nil {
		_ = syscall.Close(o.fd)
		return o, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	o.dir = st.Mode&syscall.S_IFMT == syscall.S_IFDIR
	if st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		o.link, err = os.Readlink(path)
	}
	return o, err
}

// show puts something back at its place.
func (o shown) show() error {
	if !o.dir {
		if err := os.MkdirAll(filepath.Dir(o.path), 0o711); err != nil {
			return err
		}
		if o.link != "" {
			if err := os.Symlink(o.link, o.path); !errors.Is(err, os.ErrExist) {
				return err
			}
			return nil
		}
		f, err := os.OpenFile(o.path, os.O_CREATE|os.O_RDONLY, 0o400)
		if err != nil {
			return err
		}
		_ = f.Close()
	} else if err := os.MkdirAll(o.path, 0o711); err != nil {
		return err
	}
	return mount("/proc/self/fd/"+strconv.Itoa(o.fd), o.path, "", syscall.MS_BIND|syscall.MS_REC, "")
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return &os.PathError{Op: "mount", Path: target, Err: err}
	}
	return nil
}
