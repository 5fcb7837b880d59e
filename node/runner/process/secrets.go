package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/coveyproject/covey/node/runner/sandbox"
	"github.com/coveyproject/covey/taskstate"
)

// secretsVar tells a task where its secrets are, a file for each.
const secretsVar = "COVEY_SECRETS"

// diskSecrets is where they are, in the tasks folder, on a machine without a file system in memory.
const diskSecrets = ".secrets"

// vault is where the secrets of tasks are while they run: a folder of this peer's own, in memory
// where the machine has such a file system, with one for each task in it. What is in it is removed
// by whoever sees a task's end first, this process or the supervisor, and what both missed at the
// next start.
type vault struct {
	root string // that of all peers of this user, which tasks are kept from; "": dir is on disk
	dir  string
	note *os.File // says whose it is; nil: there is none
}

// openVault finds a place for the secrets of the tasks in dir. It is always the same one, as long
// as the machine is up: a later start finds what this one leaves.
func openVault(dir string) vault {
	for _, base := range memoryFolders() {
		root := filepath.Join(realPath(base), "covey-secrets-"+strconv.Itoa(os.Getuid()))
		if err := private(root); err == nil {
			return openVaultIn(root, dir)
		}
	}
	return vault{dir: filepath.Join(dir, diskSecrets)}
}

func openVaultIn(root, dir string) vault {
	sum := sha256.Sum256([]byte(dir))
	v := vault{root: root, dir: filepath.Join(root, hex.EncodeToString(sum[:6]))}
	v.noted(dir)
	return v
}

// private makes a folder that is this user's. One that somebody else made there first is not used.
func private(dir string) error {
	if err := os.Mkdir(dir, vaultMode()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !st.IsDir() || !ours(st):
		return fmt.Errorf("%s belongs to somebody else", dir)
	}
	return os.Chmod(dir, vaultMode())
}

// vaultMode keeps other users out. Where tasks have users of their own, which only root can give
// them, they pass through it to their own folder and see no other name.
func vaultMode() os.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// close removes the folder if there is nothing in it.
func (v vault) close() {
	_ = os.Remove(v.dir)
	v.released()
}

// of is the folder of a task.
func (v vault) of(id taskstate.TaskID) string {
	return filepath.Join(v.dir, id.String())
}

// put writes the secrets of a task into a folder of its own, for one user only; nil: this peer's.
func (v vault) put(id taskstate.TaskID, values map[string][]byte, user *sandbox.User) (dir string, err error) {
	if err := private(v.dir); err != nil {
		return "", err
	}
	dir = v.of(id)
	if err := v.remove(dir); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = v.remove(dir)
		}
	}()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return dir, err
	}
	for name, value := range values {
		path := filepath.Join(dir, name)
		if err := writeSecret(path, value); err != nil {
			return dir, err
		}
		if user != nil {
			if err := os.Lchown(path, user.UID, user.GID); err != nil {
				return dir, err
			}
		}
	}
	if err := os.Chmod(dir, 0o500); err != nil || user == nil {
		return dir, err
	}
	return dir, os.Lchown(dir, user.UID, user.GID)
}

func writeSecret(path string, value []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	return errors.Join(err, f.Close())
}

// remove removes the folder of a task; none is none.
func (v vault) remove(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.Chmod(dir, 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.RemoveAll(dir)
}

// sweep removes the folders of tasks that do not run.
func (v vault) sweep(live func(taskstate.TaskID) bool) error {
	list, err := os.ReadDir(v.dir)
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	for _, e := range list {
		if id, bad := taskstate.ParseTaskID(e.Name()); bad != nil || !live(id) {
			err = errors.Join(err, v.remove(filepath.Join(v.dir, e.Name())))
		}
	}
	return err
}

// sweepAll removes the vault, whatever is in it.
func (v vault) sweepAll() error {
	err := v.sweep(func(taskstate.TaskID) bool { return false })
	if err == nil {
		err = os.Remove(v.dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// secrets puts the secrets of a task where it, and no other, finds them.
func (r *Executor) secrets(l *taskstate.Launch, user *sandbox.User, box *sandbox.Spec) (dir string, err error) {
	if r.cfg.Secrets == nil {
		return "", reject(taskstate.ReasonPrepare, "this peer opens no secrets")
	}
	values, err := r.cfg.Secrets.Values(r.life, *l)
	if err != nil {
		return "", reject(taskstate.ReasonPrepare, "%v", err)
	}
	if dir, err = r.vault.put(l.Task, values, user); err == nil && box != nil && box.Hidden(dir) {
		box.Show, box.Alike = append(slices.Clip(box.Show), dir), false // mounts that show it are nobody else's
	}
	if err == nil && box != nil && box.Closed {
		box.Read = append(slices.Clip(box.Read), dir)
	}
	return dir, err
}

// drop removes the secrets of a task that is over, or never began. A supervisor of an earlier
// version would leave them.
func (r *Executor) drop(t *task) {
	if t.launch.Job.Secrets == nil {
		return
	}
	if err := r.vault.remove(r.vault.of(t.launch.Task)); err != nil {
		r.cfg.Log.Warn("secrets of a task that is over could not be removed", "task", t.launch.Task, "err", err)
	}
}

// sweepSecrets removes what an earlier life left whose tasks do not run.
func (r *Executor) sweepSecrets() {
	err := r.vault.sweep(func(id taskstate.TaskID) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, live := r.tasks[id]
		return live
	})
	if err := errors.Join(err, r.vault.sweepNobodys()); err != nil {
		r.cfg.Log.Warn("secrets of tasks that are over could not be removed", "err", err)
	}
}
