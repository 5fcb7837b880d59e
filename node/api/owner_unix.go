//go:build !windows

package api

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// notOurs says why others may have a say in a folder, "" if they have none.
func notOurs(st fs.FileInfo) string {
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return "is no folder"
	case ok && int(sys.Uid) != os.Getuid():
		return fmt.Sprintf("belongs to user %d", sys.Uid)
	case st.Mode().Perm()&0o022 != 0:
		return "can be written by others"
	}
	return ""
}
