//go:build !linux

package supervise

import (
	"errors"
	"os"
	"syscall"
)

// corrupt is EIO where there is no error of its own for a damaged file system.
const corrupt = syscall.EIO

type logFile struct{ *os.File }

var noLog logFile

func openLog(path string) (logFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return logFile{f}, err
}

func (f logFile) chown(uid, gid int) error { return f.Chown(uid, gid) }

// hold is not known here.
func (f logFile) hold(int64, int64) error { return errors.ErrUnsupported }

// drop is not known here.
func (f logFile) drop(int64, int64) error { return errors.ErrUnsupported }

func (f logFile) dataFrom(int64) int64 { return 0 }

func (f logFile) block() int64 { return 0 }

// stat is how large the file is, and when it was last written to, in Unix milliseconds.
func (f logFile) stat() (size, written int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	return st.Size(), st.ModTime().UnixMilli(), nil
}

const notesFlags = 0
