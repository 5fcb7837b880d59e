package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// nothingFile, in the tasks folder, is what attempts that left nothing have in common: each has a
// name for it instead of a folder.
const nothingFile = ".nothing"

// maxSpare is how many folders are remembered: more than tasks that are being started at once helps
// nobody.
const maxSpare = 64

// spare remembers the folders of ended attempts that left neither output nor a file. The next
// attempt gets one of these, work folder and output files included, and what stays in its place is
// one more name of nothingFile. So a task that leaves nothing makes no file, no folder and no work
// for what cleans up. Until it is taken a folder stays where it was.
//
// A reader of the output of an ended attempt must look, after reading, whether the name still leads
// to the file that was read.
type spare struct {
	dir   string // the tasks folder
	mu    sync.Mutex
	homes []spareHome
	off   bool // this system, or this disk, cannot do it
}

type spareHome struct {
	path string
	kind kind
}

// offer gives the folder of an attempt that is over. It tells whether it is remembered, which it is
// only if it is as good as new and nobody has its output open. The one that has waited longest
// makes room: it may be of a kind that nobody asks for any more.
func (s *spare) offer(home string, k kind) bool {
	s.mu.Lock()
	off := s.off
	s.mu.Unlock()
	if off || !asNew(home, k) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.homes) >= maxSpare {
		s.homes = slices.Delete(s.homes, 0, 1)
	}
	s.homes = append(s.homes, spareHome{home, k})
	return true
}

// reuse puts a spare folder of that kind at home; false if there is none, or home is not free. It
// holds the lock until that is done: forget must not return while a folder is on its way.
func (s *spare) reuse(home string, k kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.homes = slices.DeleteFunc(s.homes, func(h spareHome) bool { return h.path == home }) // started before: from now on it is in use
	from := s.take(k)
	if from == "" || s.off || !s.mark(home) {
		return false
	}
	for ; from != ""; from = s.take(k) {
		err := exchange(from, home)
		if err == nil {
			return true
		}
		if s.off = unable(err); s.off {
			break
		} // otherwise somebody removed it
	}
	_ = os.Remove(home)
	return false
}

// take strikes the newest folder of that kind off; "" if there is none.
func (s *spare) take(k kind) string {
	for i, h := range slices.Backward(s.homes) {
		if h.kind == k {
			s.homes = slices.Delete(s.homes, i, i+1)
			return h.path
		}
	}
	return ""
}

// mark makes home a name of nothingFile.
func (s *spare) mark(home string) bool {
	nothing := filepath.Join(s.dir, nothingFile)
	err := os.Link(nothing, home)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err == nil
	}
	if !errors.Is(err, fs.ErrNotExist) { // it has as many names as a file may have: another one goes on
		_ = os.Remove(nothing)
	}
	err = os.MkdirAll(filepath.Dir(home), 0o700) // the first task of its job
	if f, ferr := os.OpenFile(nothing, os.O_CREATE|os.O_RDONLY, 0o400); ferr == nil {
		_ = f.Close()
	}
	if err == nil {
		err = os.Link(nothing, home)
	}
	s.off = unable(err)
	return err == nil
}

// unable tells whether an error means that it will not work next time either.
func unable(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL)
}

// forget strikes off what is below a folder that is about to be removed.
func (s *spare) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.homes = slices.DeleteFunc(s.homes, func(h spareHome) bool { return strings.HasPrefix(h.path, dir+string(filepath.Separator)) })
}
