package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"covey/taskstate"
)

const scriptName = "script"

// freshFolder makes the attempt's folder. If there is one – this attempt was started in an earlier life – it goes first.
func freshFolder(home string) error {
	err := os.Mkdir(home, 0o700)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the first task of its job
		if err = os.MkdirAll(filepath.Dir(home), 0o700); err == nil {
			err = os.Mkdir(home, 0o700)
		}
	case errors.Is(err, fs.ErrExist):
		if err = removeTree(home); err == nil {
			err = os.Mkdir(home, 0o700)
		}
	}
	return err
}

// workFolder makes the folder a task runs in, with its script, and returns the one it starts in.
func (r *Runner) workFolder(work string, p *taskstate.Process) (dir string, err error) {
	if !r.spare.take(work) {
		if err := os.Mkdir(work, 0o700); err != nil {
			return "", err
		}
	}
	if len(p.Script) > 0 {
		if err := writeScript(filepath.Join(work, scriptName), p.Script); err != nil {
			return "", err
		}
	}
	if p.Dir == "" {
		return work, nil
	}
	if !filepath.IsLocal(p.Dir) {
		return "", reject(taskstate.ReasonPrepare, "dir %q leads out of the task's folder; give a relative path below it", p.Dir)
	}
	dir = filepath.Join(work, p.Dir)
	return dir, os.MkdirAll(dir, 0o700)
}

// writeScript writes an executable. No fork may happen while it is open for writing: the child would hold it open until its own exec,
// and executing the script fails as "text file busy" as long as anybody does.
func writeScript(path string, script []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, script, 0o700)
}

// removeTree is os.RemoveAll that also gets past folders a task made read-only.
func removeTree(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// Clean removes everything kept of a job: folders, output, scripts. The node calls it for jobs it has forgotten; none of their tasks may
// be running. Nothing to remove is no error.
func (r *Runner) Clean(job taskstate.JobID) error {
	name, err := job.Folder()
	if err != nil {
		return err
	}
	return removeTree(filepath.Join(r.cfg.Dir, name))
}

// maxSpare is how many empty folders are remembered: more than tasks that are being started at once helps nobody.
const maxSpare = 64

// spare remembers the work folders of ended tasks that left nothing in them. The next task gets one of these by renaming: a third of the
// price of a new one, and tasks that leave nothing behind do not take 4 KiB of disk each for saying so. A folder stays where it was until
// then, and may vanish with its job.
type spare struct {
	mu    sync.Mutex
	paths []string
}

// offer gives a work folder that nobody uses any more. It is remembered only if it is as good as new.
func (s *spare) offer(work string) {
	s.mu.Lock()
	full := len(s.paths) >= maxSpare
	s.mu.Unlock()
	if full || !pristine(work) {
		return
	}
	s.mu.Lock()
	s.paths = append(s.paths, work)
	s.mu.Unlock()
}

// take moves a spare folder to work; false if there is none. Should work itself be listed – the same attempt was started before – it is
// struck off first: from now on it is in use.
func (s *spare) take(work string) bool {
	s.mu.Lock()
	s.paths = slices.DeleteFunc(s.paths, func(p string) bool { return p == work })
	s.mu.Unlock()
	for {
		s.mu.Lock()
		n := len(s.paths)
		if n == 0 {
			s.mu.Unlock()
			return false
		}
		from := s.paths[n-1]
		s.paths = s.paths[:n-1]
		s.mu.Unlock()
		if rename(from, work) == nil {
			return true
		}
	}
}
