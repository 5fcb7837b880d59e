//go:build !windows

package node

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// lockFile takes the lock or fails at once; the system releases it when the process ends, however
// it ends.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// fileIdentity tells a file from a copy of it in the same file system.
func fileIdentity(info os.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return "inode " + strconv.FormatUint(st.Ino, 10)
	}
	return ""
}

// onlyOurs refuses a data folder that others can write to: they could put a key, a roster or a
// socket of theirs there.
func onlyOurs(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return api.Errorf(api.Failed, "cannot use the data folder: %v; choose another with --data DIR", err)
	}
	if st.Mode().Perm()&0o022 != 0 {
		return api.Errorf(api.Refused, "others can write to the data folder %s (%v): type `chmod go-w %s`, or choose another with --data DIR", dir, st.Mode().Perm(), dir)
	}
	return nil
}

// cpuTime is the processor time this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
