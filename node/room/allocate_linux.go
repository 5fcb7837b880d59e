package room

import (
	"os"
	"syscall"
)

// allocate has the disk keep n bytes for a file.
func allocate(f *os.File, n int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, n) }
