package supervise

import (
	"os"
	"sync"
	"syscall"
)

const (
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL
)

// spec is a process to start. argv is never empty.
type spec struct {
	path           string
	argv, env      []string
	dir            string
	stdin          *os.File
	stdout, stderr logFile
}

// ending is how a process ended.
type ending struct {
	exit, signal int
	err          error // its end could not be seen
	alone        bool  // nobody else was left with it: never known here
}

// child is a started process. Windows has no process groups in our sense and no SIGTERM: stopping kills the process itself, at once, and
// what it started lives on.
type child struct {
	pid  int
	p    *os.Process
	mu   sync.Mutex
	over bool
}

func spawn(s spec) (*child, error) {
	p, err := os.StartProcess(s.path, s.argv, &os.ProcAttr{
		Dir: s.dir, Env: s.env, Files: []*os.File{s.stdin, s.stdout.File, s.stderr.File},
		Sys: &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true},
	})
	if err != nil {
		return nil, err
	}
	return &child{pid: p.Pid, p: p}, nil
}

// signal kills, whatever sig is; false means that the process has ended.
func (c *child) signal(syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.over && c.p.Kill() == nil
}

// reap is never asked for here: nobody follows a child without waiting for it.
func (c *child) reap(error) ending { return c.wait() }

// wait blocks until the process has ended and says how.
func (c *child) wait() ending {
	st, err := c.p.Wait()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	if err != nil {
		return ending{err: err}
	}
	return ending{exit: st.ExitCode()}
}
