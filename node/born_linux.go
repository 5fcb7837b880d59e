package node

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// born is when a file was made, "" where its file system does not record it. A file system may give
// the inode of a file that was removed to the next one.
func born(path string) string {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return strconv.FormatInt(st.Btime.Sec, 10) + "." + strconv.FormatUint(uint64(st.Btime.Nsec), 10)
}
