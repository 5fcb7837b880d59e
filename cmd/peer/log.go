package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// A detached peer's stdout and stderr are the file peer.log in its data folder. When that has grown
// to its cap, what it holds becomes peer.log.1, in place of what that held, and it begins anew.

const (
	logName    = "peer.log"
	olderName  = ".1"    // added to the name of what came before
	defaultLog = 8 << 20 // bytes of peer.log
	leastLog   = 4 << 10 // below that a log explains nothing
)

// freshLog begins a log. That of the start before is kept beside it: it may say why there is a new
// one.
func freshLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+olderName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Appending: the writer goes on at the new end when it is cut.
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
}

// capLog bounds what this peer says, if that goes into its log file. size is --keep-log.
func (c *cli) capLog(size string) error {
	limit := int64(defaultLog)
	if size != "" {
		n, err := jobfile.ParseSize(size)
		if err != nil {
			return api.Errorf(api.Usage, "--keep-log: %v", err)
		}
		if n < leastLog {
			return api.Errorf(api.Usage, "--keep-log %s: expected at least %d bytes, as in --keep-log 8MiB", size, leastLog)
		}
		limit = n
	}
	path := filepath.Join(c.data, logName)
	if f, ok := raw(c.Err).(*os.File); ok && sameFile(f, path) {
		c.messagesTo(&cappedLog{to: f, path: path, limit: limit})
	}
	return nil
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// cappedLog writes to the end of a file that others – the runtime, when it panics – may write to as
// well, and so cannot be put aside: its content is copied, and the file is cut. Safe for concurrent
// use.
type cappedLog struct {
	path  string
	limit int64

	mu sync.Mutex
	to *os.File
}

// Write implements io.Writer. A file that cannot be cut goes on to grow: better than silence.
func (l *cappedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if st, err := l.to.Stat(); err == nil && st.Size() > 0 && st.Size()+int64(len(b)) > l.limit {
		_ = l.turn()
	}
	return l.to.Write(b)
}

// turn puts what the file holds aside and empties it. Where there is no room for both, it is lost:
// the cap holds.
func (l *cappedLog) turn() error {
	older := l.path + olderName
	if err := copyFile(l.path, older, l.limit); err != nil {
		_ = os.Remove(older)
	}
	return os.Truncate(l.path, 0)
}

// copyFile copies the last bytes of a file, limit at most.
func copyFile(from, to string, limit int64) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if st, err := in.Stat(); err != nil {
		return err
	} else if st.Size() > limit {
		if _, err := in.Seek(-limit, io.SeekEnd); err != nil {
			return err
		}
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, io.LimitReader(in, limit))
	return err
}
