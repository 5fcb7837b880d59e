// Package atomicfile replaces files whole. It knows nothing of what is in them.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"covey/internal/flush"
)

// Write replaces a file so that after a crash it is either the old or the new one, whole.
func Write(path string, data []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = flush.Dir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
