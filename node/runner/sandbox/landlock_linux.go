package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Landlock: what a thread, and all it starts, may do with files, by rules on folders that hold for
// all below them. Of the kernel's own names, LANDLOCK_ left out.
const (
	landlockCreate   = 444
	landlockAddRule  = 445
	landlockRestrict = 446

	createVersion   = 1
	rulePathBeneath = 1

	accessExecute   = 1 << 0
	accessWriteFile = 1 << 1
	accessReadFile  = 1 << 2
	accessReadDir   = 1 << 3
	accessTruncate  = 1 << 14
	accessIoctl     = 1 << 15

	accessOnFiles = accessExecute | accessWriteFile | accessReadFile | accessTruncate | accessIoctl
	accessToRead  = accessExecute | accessReadFile | accessReadDir

	scopeAbstractSocket = 1 << 0
	scopeSignal         = 1 << 1
)

// accessOf is all there is to be handled, by version of the interface.
func accessOf(version int) uint64 {
	switch {
	case version >= 5: // ioctl on devices
		return 1<<16 - 1
	case version >= 3: // truncate
		return 1<<15 - 1
	case version == 2: // links and renames from folder to folder
		return 1<<14 - 1
	}
	return 1<<13 - 1
}

// landlockVersion is what the kernel has, 0: nothing.
func landlockVersion() int {
	v, _, e := syscall.RawSyscall(landlockCreate, 0, 0, createVersion)
	if e != 0 {
		return 0
	}
	return int(v)
}

type rulesetAttr struct{ fs, net, scoped uint64 }

// ruleset is what is allowed; nothing else of what it handles is.
type ruleset struct {
	fd      int
	handled uint64
}

func newRuleset(alone bool) (*ruleset, error) {
	version := landlockVersion()
	if version == 0 {
		return nil, errors.New("the kernel has no landlock")
	}
	attr := rulesetAttr{fs: accessOf(version)}
	size := unsafe.Sizeof(attr.fs)
	if alone && version >= 6 { // no signals to, and no abstract sockets of, anybody but its own
		attr.scoped = scopeAbstractSocket | scopeSignal
		size = unsafe.Sizeof(attr)
	}
	fd, _, e := syscall.RawSyscall(landlockCreate, uintptr(unsafe.Pointer(&attr)), size, 0)
	if e != 0 {
		return nil, os.NewSyscallError("landlock_create_ruleset", e)
	}
	return &ruleset{fd: int(fd), handled: attr.fs}, nil
}

// beneath is a file, or all below a folder, as what access to it can be allowed.
type beneath struct {
	path   string
	fd     int
	access uint64
}

// lookAt opens what access is to be allowed to; there is nothing to be closed where it is not
// there.
func lookAt(path string, access uint64) (p beneath, there bool, err error) {
	fd, err := syscall.Open(path, oPath|syscall.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		return p, false, nil
	case err != nil:
		return p, false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		_ = syscall.Close(fd)
		return p, false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		access &= accessOnFiles
	}
	return beneath{path, fd, access}, true, nil
}

// allow allows access to a file, or to all below a folder. What is not there needs no rule.
func (r *ruleset) allow(path string, access uint64) error {
	p, there, err := lookAt(path, access)
	if err != nil || !there {
		return err
	}
	defer func() { _ = syscall.Close(p.fd) }()
	return r.add(p)
}

func (r *ruleset) add(p beneath) error {
	var attr [12]byte // struct landlock_path_beneath_attr is packed
	*(*uint64)(unsafe.Pointer(&attr[0])) = p.access & r.handled
	*(*int32)(unsafe.Pointer(&attr[8])) = int32(p.fd)
	if _, _, e := syscall.RawSyscall6(landlockAddRule, uintptr(r.fd), rulePathBeneath, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); e != 0 {
		return &os.PathError{Op: "landlock_add_rule", Path: p.path, Err: e}
	}
	return nil
}

// restrict holds this thread to the rules, for good.
func (r *ruleset) restrict() error {
	_, _, e := syscall.RawSyscall(landlockRestrict, uintptr(r.fd), 0, 0)
	_ = syscall.Close(r.fd)
	if e != 0 {
		return os.NewSyscallError("landlock_restrict_self", e)
	}
	return nil
}

// system is what programs need of a machine, to be read and executed, and devices is what they use.
// Nothing else of /dev is allowed: disks are there, and in /dev/shm what others keep in memory.
var (
	system  = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap", "/run/current-system", "/run/systemd/resolve", "/proc", "/sys"}
	devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/dri", "/dev/kfd"}
)

// machine is what every Closed process may use of the machine, looked at once a second at most:
// opening forty files for each would cost a tenth of a millisecond.
type machine struct {
	mu  sync.Mutex
	at  time.Time
	all []beneath
}

var ofMachine machine

// allow adds rules for all of it.
func (m *machine) allow(r *ruleset) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > time.Second { // devices come and go
		if err := m.look(); err != nil {
			return err
		}
	}
	for _, p := range m.all {
		if err := r.add(p); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) close() {
	for _, p := range m.all {
		_ = syscall.Close(p.fd)
	}
	m.all, m.at = m.all[:0], time.Time{}
}

func (m *machine) look() error {
	m.close()
	nvidia, _ := filepath.Glob("/dev/nvidia*")
	for _, of := range []struct {
		paths  []string
		access uint64
	}{{system, accessToRead}, {devices, accessOnFiles | accessReadDir}, {nvidia, accessOnFiles | accessReadDir}} {
		for _, path := range of.paths {
			p, there, err := lookAt(path, of.access)
			if err != nil {
				return err
			}
			if there {
				m.all = append(m.all, p)
			}
		}
	}
	m.at = time.Now()
	return nil
}

// closeFiles leaves this thread the machine's files to read, and Read and Write.
func (s *Spec) closeFiles() error {
	r, err := newRuleset(true)
	if err != nil {
		return err
	}
	m := &ofMachine
	if s.Apart { // its /proc is another one
		m = &machine{}
		defer m.close()
	}
	err = m.allow(r)
	for _, p := range s.Read {
		err = errors.Join(err, r.allow(p, accessToRead))
	}
	for _, p := range s.Write {
		err = errors.Join(err, r.allow(p, ^uint64(0)))
	}
	if err != nil {
		_ = syscall.Close(r.fd)
		return err
	}
	return r.restrict()
}

// hideByRules allows everything but what is in hidden folders. Rules only ever allow, and for all
// below, so what is beside the way to such a folder is allowed, name by name: who may make new
// names there could not use them. So it is for ways on which the user may make none (Sealed).
func (s *Spec) hideByRules() error {
	r, err := newRuleset(false)
	if err != nil {
		return err
	}
	err = r.allow("/", accessReadDir|accessExecute) // names are no secret
	for dir := range s.ways() {
		entries, rerr := os.ReadDir(dir)
		err = errors.Join(err, rerr)
		for _, e := range entries {
			if p := filepath.Join(dir, e.Name()); !s.onTheWay(p) {
				err = errors.Join(err, r.allow(p, ^uint64(0)))
			}
		}
	}
	for _, p := range s.Show {
		err = errors.Join(err, r.allow(p, ^uint64(0)))
	}
	if err != nil {
		_ = syscall.Close(r.fd)
		return err
	}
	return r.restrict()
}

// ways are the folders above hidden ones.
func (s *Spec) ways() map[string]bool {
	all := map[string]bool{}
	for _, h := range s.Hide {
		for dir := filepath.Dir(h); ; dir = filepath.Dir(dir) {
			all[dir] = true
			if dir == "/" {
				break
			}
		}
	}
	return all
}

// onTheWay tells whether something is hidden, or above what is.
func (s *Spec) onTheWay(p string) bool {
	for _, h := range s.Hide {
		if p == h || strings.HasPrefix(h, p+"/") {
			return true
		}
	}
	return false
}

// Sealed tells whether nobody but root makes new names above a folder: then rules hide it and
// nothing else.
func Sealed(hide []string) bool {
	s := Spec{Hide: hide}
	for dir := range s.ways() {
		const write = 2 // W_OK
		if err := syscall.Access(dir, write); err == nil {
			return false
		}
	}
	return true
}
