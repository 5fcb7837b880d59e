//go:build !windows

package sweep

import (
	"os"
	"syscall"
)

// onDisk is what one name of a file takes on its disk.
func onDisk(info os.FileInfo) int64 {
	const block = 512 // of st_blocks, whatever the disk's are
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * block / max(1, int64(st.Nlink)) // the type differs by system
	}
	return info.Size()
}
