package runner

import (
	"syscall"

	"covey/taskstate"
)

// endWriters makes sure that nobody writes a task's output any more. A process that left the group and holds the file open is found with a
// lease – the kernel grants one for reading only where nobody has the file open for writing – and killed if its environment names the task.
// It tells whether the file is at rest now, as far as can be known: some file systems have no leases.
func endWriters(path string, id taskstate.TaskID) bool {
	if unwritten(path) {
		return true
	}
	killByEnvironment(func(o taskstate.TaskID) bool { return o == id })
	return unwritten(path)
}

// unwritten asks for a lease and gives it back by closing.
func unwritten(path string) bool {
	fd, err := retry(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|noFollow, 0) })
	if err != nil {
		return true // gone: the task or somebody else removed it
	}
	defer func() { _ = syscall.Close(fd) }()
	_, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETLEASE, syscall.F_RDLCK)
	return e != syscall.EAGAIN
}
