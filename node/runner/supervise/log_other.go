//go:build !linux

package supervise

import (
	"errors"
	"os"
)

// logFile is an open output file.
type logFile struct{ *os.File }

var noLog logFile

func openLog(path string) (logFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return logFile{f}, err
}

// hold is not known here.
func (f logFile) hold(int64, int64) error { return errors.ErrUnsupported }

func (f logFile) size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
