package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coveyproject/covey/node/runner/sandbox"
	"github.com/coveyproject/covey/taskstate"
)

// WorkName is the folder an attempt runs in, in its own.
const WorkName = "work"

// tempName is the folder for what a task without files of others puts aside.
const tempName = "tmp"

// kind tells folders of attempts apart by what they are made of.
type kind struct {
	user sandbox.User // whose the work folder is, zero: this peer's own
	temp bool         // there is a folder for temporary files
}

func kindOf(user *sandbox.User, box *sandbox.Spec) kind {
	k := kind{temp: box != nil && box.Closed}
	if user != nil {
		k.user = *user
	}
	return k
}

// freshFolder makes the attempt's folder, with an empty work folder in it. If there is one – this
// attempt was started in an earlier life – it goes first.
func (r *Executor) freshFolder(home string, k kind) error {
	if r.spare.reuse(home, k) {
		return nil
	}
	err := os.Mkdir(home, 0o700)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the first task of its job
		if err = os.MkdirAll(filepath.Dir(home), 0o700); err == nil {
			err = os.Mkdir(home, 0o700)
		}
	case errors.Is(err, fs.ErrExist):
		if err = RemoveTree(home); err == nil {
			err = os.Mkdir(home, 0o700)
		}
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(home, WorkName), 0o700); err != nil || !k.temp {
		return err
	}
	return os.Mkdir(filepath.Join(home, tempName), 0o700)
}

// workFolder puts the script into the folder a task runs in, and returns the one it starts in.
func workFolder(work string, p *taskstate.Process) (dir string, err error) {
	if len(p.Script) > 0 {
		name := p.ScriptFile()
		if !filepath.IsLocal(name) || filepath.Base(name) != name {
			return "", reject(taskstate.ReasonPrepare, "the script cannot be called %q", name)
		}
		if err := writeScript(filepath.Join(work, name), p.Script); err != nil {
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

// writeScript writes an executable. No fork may happen while it is open for writing: the child
// would hold it open until its own exec, and executing the script fails as "text file busy" as long
// as anybody does.
func writeScript(path string, script []byte) error {
	// An input may be called so, as where the script is in the folder that is the task's: other
	// tasks have it too, and it is not to be written to.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = f.Write(script)
	return errors.Join(err, f.Close())
}

// RemoveTree is os.RemoveAll that also gets past folders a task made read-only.
func RemoveTree(path string) error {
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

// Clean removes everything kept of a job: folders, output, scripts. The node calls it for jobs it
// has forgotten; none of their tasks may be running. Nothing to remove is no error.
func (r *Executor) Clean(job taskstate.JobID) error {
	name, err := job.Folder()
	if err != nil {
		return err
	}
	dir := filepath.Join(r.cfg.Dir, name)
	r.spare.forget(dir)
	return RemoveTree(dir)
}
