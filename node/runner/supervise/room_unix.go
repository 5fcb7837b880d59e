//go:build linux || darwin

package supervise

import (
	"os"
	"syscall"
)

// RoomOf looks how the file system of a folder stands.
func RoomOf(dir string) (Room, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Room{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	const readOnly = 1 // ST_RDONLY, MNT_RDONLY
	block := int64(st.Bsize)
	return Room{
		Free: int64(st.Bavail) * block, Total: int64(st.Blocks) * block, ReadOnly: st.Flags&readOnly != 0,
		Inodes: int64(st.Ffree), AllInodes: int64(st.Files),
	}, nil
}
