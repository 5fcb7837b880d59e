//go:build unix

package supervise

import (
	"os"
	"strconv"
	"syscall"
)

// keepDescriptors has no process started from here on inherit what this one was given by the
// process that started it: Go closes its own descriptors in a child, and knows nothing of others.
func keepDescriptors() {
	dir, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range dir {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
