package process

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
	"github.com/coveyproject/covey/node/runner/supervise"
)

// noteEnd ends the name of a note: beside a vault, and called like it.
const noteEnd = ".owner"

// note says whose a vault is. Its peer has it locked as long as it lives, so that a later start of
// any peer of this user finds what is nobody's any more: peer and supervisor were killed, and their
// data folder is gone.
type note struct {
	Tasks  string // the tasks folder
	Spaces string // the namespaces in which that is its name and its supervisor would be seen
	Groups string // the folder of its control groups; "": it has none
}

// noted leaves the note of the vault, and locks it. Without one the vault is as good: nobody but
// its own next start cleans it.
func (v *vault) noted(tasks string) {
	b, err := json.Marshal(note{tasks, spaces(), sandbox.GroupsFolder(tasks)})
	if err != nil {
		return
	}
	for range 100 {
		f, err := os.OpenFile(v.dir+noteEnd, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return
		}
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil && current(f) {
			if _, err = f.WriteAt(b, 0); err == nil {
				err = f.Truncate(int64(len(b)))
			}
			if err != nil {
				_ = f.Close()
				return
			}
			v.note = f
			return
		}
		_ = f.Close()
		time.Sleep(10 * time.Millisecond) // somebody looks whether it is nobody's
	}
}

// current tells whether a note still has its name.
func current(f *os.File) bool {
	a, err := f.Stat()
	b, err2 := os.Lstat(f.Name())
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// released gives up the note, with the vault if that is gone.
func (v vault) released() {
	if v.note == nil {
		return
	}
	if _, err := os.Lstat(v.dir); errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(v.note.Name())
	}
	_ = v.note.Close()
}

// sweepNobodys removes the vaults beside this one, and the control groups with nothing in them,
// that are nobody's any more.
func (v vault) sweepNobodys() (err error) {
	if v.root == "" {
		return nil
	}
	notes, _ := filepath.Glob(filepath.Join(v.root, "*"+noteEnd))
	for _, path := range notes {
		err = errors.Join(err, v.sweepNote(path))
	}
	return err
}

func (v vault) sweepNote(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil //nolint:nilerr // another start was faster
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !current(f) {
		return nil
	}
	var n note
	if json.NewDecoder(f).Decode(&n) != nil || !n.nobodys() {
		return nil
	}
	dir := strings.TrimSuffix(path, noteEnd)
	if err := (vault{dir: dir}).sweepAll(); err != nil {
		return err
	}
	if groups, _ := filepath.Glob(filepath.Join(n.Groups, "*")); n.Groups != "" {
		for _, g := range groups {
			_ = syscall.Rmdir(g) // not while something is in it
		}
		if err := syscall.Rmdir(n.Groups); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil //nolint:nilerr // what runs there ends some day, and a later start finds it
		}
	}
	return os.Remove(path)
}

// nobodys tells that nobody will ever come back to what this peer left. Whoever asks has seen that
// it does not live.
func (n note) nobodys() bool {
	if n.Spaces != spaces() || !filepath.IsAbs(n.Tasks) {
		return false
	}
	_, err := os.Lstat(n.Tasks)
	return errors.Is(err, fs.ErrNotExist) && !supervise.Supervised(n.Tasks)
}

// spaces are the namespaces of this process that give files and processes their names.
func spaces() string {
	mounts, _ := os.Readlink("/proc/self/ns/mnt")
	pids, _ := os.Readlink("/proc/self/ns/pid")
	return mounts + " " + pids
}
