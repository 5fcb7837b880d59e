package supervise

import (
	"os"
	"syscall"
)

// logFile is an open output file: its descriptor. os.File would cost two more calls of the system and a finaliser for each.
type logFile int

const noLog logFile = -1

func openLog(path string) (logFile, error) {
	fd, err := retry(func() (int, error) {
		return syscall.Open(path, syscall.O_CREAT|syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return noLog, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return logFile(fd), nil
}

func (f logFile) size() (int64, error) {
	var st syscall.Stat_t
	_, err := retry(func() (int, error) { return 0, syscall.Fstat(int(f), &st) })
	return st.Size, err
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

// Close is called once.
func (f logFile) Close() error { return syscall.Close(int(f)) }
