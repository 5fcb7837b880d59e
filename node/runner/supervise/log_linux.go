package supervise

import (
	"errors"
	"os"
	"syscall"
)

// logFile is an open output file: its descriptor. os.File would cost two more calls of the system
// and a finaliser for each.
type logFile int

const noLog logFile = -1

// corrupt is what a file system answers that has found damage in itself.
const corrupt = syscall.EUCLEAN

func openLog(path string) (logFile, error) {
	fd, err := retry(func() (int, error) {
		return syscall.Open(path, syscall.O_CREAT|syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return noLog, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return logFile(fd), nil
}

// stat is how large the file is, and when it was last written to, in Unix milliseconds.
func (f logFile) stat() (size, written int64, err error) {
	var st syscall.Stat_t
	_, err = retry(func() (int, error) { return 0, syscall.Fstat(int(f), &st) })
	return st.Size, st.Mtim.Nano() / 1e6, err
}

// notesFlags keep an open from following a link, and from waiting for the reader of a pipe.
const notesFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func (f logFile) chown(uid, gid int) error {
	_, err := retry(func() (int, error) { return 0, syscall.Fchown(int(f), uid, gid) })
	return err
}

// Truncate cuts the file to n bytes.
func (f logFile) Truncate(n int64) error {
	_, err := retry(func() (int, error) { return 0, syscall.Ftruncate(int(f), n) })
	return err
}

// Write appends.
func (f logFile) Write(b []byte) (int, error) {
	return retry(func() (int, error) { return syscall.Write(int(f), b) })
}

// hold has the disk keep room for n bytes from an offset on, without changing the file.
func (f logFile) hold(at, n int64) error {
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE
	_, err := retry(func() (int, error) { return 0, syscall.Fallocate(int(f), keepSize, at, n) })
	return err
}

// drop gives the disk back n bytes from an offset on. They read as zeros then; the others stay
// where they are.
func (f logFile) drop(at, n int64) error {
	const keepSize, punchHole = 1, 2 // of FALLOC_FL_
	_, err := retry(func() (int, error) { return 0, syscall.Fallocate(int(f), keepSize|punchHole, at, n) })
	return err
}

// dataFrom is where that begins which was not dropped, size if there is nothing.
func (f logFile) dataFrom(size int64) int64 {
	const seekData = 3
	at, err := syscall.Seek(int(f), 0, seekData)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return size
	case err != nil:
		return 0
	}
	return at
}

// block is the size of the disk's blocks.
func (f logFile) block() int64 {
	var st syscall.Stat_t
	if _, err := retry(func() (int, error) { return 0, syscall.Fstat(int(f), &st) }); err != nil {
		return 0
	}
	return int64(st.Blksize)
}

// Close is called once.
func (f logFile) Close() error { return syscall.Close(int(f)) }
