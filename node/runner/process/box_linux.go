package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// closed is the first folder on the way to dir that not everybody may pass: what is below it others
// than its owner do not reach, be it hidden or not, and what is to be shown has to be shown there.
func closed(dir string) string {
	for i := 1; i < len(dir); i++ {
		if dir[i] != filepath.Separator {
			continue
		}
		if st, err := os.Stat(dir[:i]); err == nil && st.Mode().Perm()&1 == 0 {
			return dir[:i]
		}
	}
	return dir
}

// hand makes the folder a task runs in that of its user, with all that was put there but files that
// others have too. The attempt's own folder, with its output, stays this peer's.
func hand(home string, user *sandbox.User) error {
	if user == nil {
		return nil
	}
	for _, dir := range []string{home, filepath.Dir(home), filepath.Dir(filepath.Dir(home))} { // the attempt's, the job's, and all
		if err := os.Chmod(dir, 0o711); err != nil {
			return err
		}
	}
	if err := os.Lchown(filepath.Join(home, tempName), user.UID, user.GID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return filepath.WalkDir(filepath.Join(home, WorkName), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			st, err := d.Info()
			if err != nil {
				return err
			}
			if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Nlink > 1 {
				return nil
			}
		}
		return os.Lchown(path, user.UID, user.GID)
	})
}

// mapped tells whether a user of this number can exist here: a container may know few.
func mapped(uid int) bool {
	return !errors.Is(trySetuid(uid), syscall.EINVAL)
}

// trySetuid gives a file to a user, which the system refuses with EINVAL if there cannot be one.
func trySetuid(uid int) error {
	f, err := os.CreateTemp("", "covey-try-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return f.Chown(uid, uid)
}
