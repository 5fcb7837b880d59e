package sandbox

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Barred is the first folder on the way to a file that the user may not enter, or the file itself
// where the user may not execute it; "": nothing is in the way. The file exists. What this process
// may do, as root for one, does not count. Where the kernel has no faccessat2 nothing is known to
// be in the way.
func (u *User) Barred(file string) string {
	places := []string{file}
	if real, err := filepath.EvalSymlinks(file); err == nil && real != file {
		places = []string{real, file} // the folder itself is a better word than a link to it
	}
	barred := make(chan string)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		barred <- u.become().barred(places)
	}()
	return <-barred
}

// become gives this thread the user's rights on files. nil: it cannot.
func (u *User) become() *User {
	if unix.Setgroups(nil) != nil || unix.Setfsgid(u.GID) != nil || unix.Setfsuid(u.UID) != nil {
		return nil
	}
	return u
}

func (u *User) barred(files []string) string {
	if u == nil {
		return ""
	}
	for _, file := range files {
		for i := range len(file) + 1 {
			if i < len(file) && (i == 0 || file[i] != filepath.Separator) {
				continue
			}
			if err := unix.Faccessat(unix.AT_FDCWD, file[:i], unix.X_OK, unix.AT_EACCESS); errors.Is(err, fs.ErrPermission) {
				return strings.TrimSuffix(file[:i], "/")
			}
		}
	}
	return ""
}
