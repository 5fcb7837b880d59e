package process

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coveyproject/covey/node/runner/supervise"
)

// asNew tells whether an attempt's folder is as it was made: a work folder with nothing in it, and
// output files that are empty and that nobody has open. It is asked after every task, so it does
// without os.File.
func asNew(home string, k kind) bool {
	names := 3 // work, stdout, stderr
	if k.temp {
		names++
	}
	dir, ok := bareFolder(unix.AT_FDCWD, home, names, 0o700, 0o711)
	if !ok {
		return false
	}
	defer func() { _ = syscall.Close(dir) }()
	work, ok := bareFolder(dir, WorkName, 0, 0o700)
	if !ok {
		return false
	}
	_ = syscall.Close(work)
	if k.temp {
		temp, ok := bareFolder(dir, tempName, 0, 0o700)
		if !ok {
			return false
		}
		_ = syscall.Close(temp)
	}
	for _, name := range supervise.Streams() {
		if !blankFile(dir, name) {
			return false
		}
	}
	return true
}

// bareFolder opens a folder that has a mode we make it with and so many names in it.
func bareFolder(at int, name string, names int, modes ...uint32) (fd int, ok bool) {
	fd, err := syscall.Openat(at, name, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return -1, false
	}
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) == nil && slices.Contains(modes, st.Mode&0o7777) && countNames(fd, names) == names {
		return fd, true
	}
	_ = syscall.Close(fd)
	return -1, false
}

// countNames counts what is in an open folder, up to one more than most; -1 if it cannot be read.
func countNames(fd, most int) (count int) {
	var room [1024]byte
	for {
		n, err := syscall.ReadDirent(fd, room[:])
		if err != nil {
			return -1
		}
		_, names, _ := syscall.ParseDirent(room[:n], most+1-count, nil)
		if count += names; n == 0 || count > most {
			return count
		}
	}
}

// blankFile tells whether a file is an empty one of ours, with no other name, that nobody has open,
// for reading or writing: only then the kernel grants a lease for writing, which closing gives
// back.
func blankFile(at int, name string) bool {
	fd, err := syscall.Openat(at, name, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	var st syscall.Stat_t
	return err == nil && syscall.Fstat(fd, &st) == nil && st.Mode == syscall.S_IFREG|0o600 && st.Nlink == 1 && st.Size == 0
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
