//go:build unix

package placement_test

import (
	"syscall"
	"time"
)

// processorTime is what this process has used. On a machine that others use too, only this can be
// compared.
func processorTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
