package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// checkBoot tells whether the machine was started since the folder was last used, and whether the
// folder says so already. A new folder is marked at once; one of another boot when the first
// process starts, because until then the peer may not have written down what the restart has cost
// it, and a peer that is killed in between must find out again.
func checkBoot(dir string) (rebooted, marked bool, err error) {
	was, err := os.ReadFile(filepath.Join(dir, bootName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, true, markBoot(dir)
	case err != nil:
		return false, false, err
	}
	same := string(was) == BootID()
	return !same, same, nil
}

func markBoot(dir string) error {
	path := filepath.Join(dir, bootName)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(BootID())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err // half a mark would be that of another boot
	}
	return os.Rename(path+".new", path)
}
