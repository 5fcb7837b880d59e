//go:build unix && !linux

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
	alone        bool  // nobody else was left in its group
}

// child is a started process, the leader of its own group.
type child struct {
	pid  int
	p    *os.Process
	mu   sync.Mutex
	over bool
}

func spawn(s spec) (*child, error) {
	p, err := os.StartProcess(s.path, s.argv, &os.ProcAttr{
		Dir: s.dir, Env: s.env, Files: []*os.File{s.stdin, s.stdout.File, s.stderr.File}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, err
	}
	return &child{pid: p.Pid, p: p}, nil
}

// signal sends to the whole group; false means that the process has ended.
func (c *child) signal(sig syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.over && syscall.Kill(-c.pid, sig) == nil
}

// reap is never asked for here: nobody follows a child without waiting for it.
func (c *child) reap(error) ending { return c.wait() }

// wait blocks until the process has ended, kills what is left of its group, and says how it ended.
func (c *child) wait() ending {
	st, err := c.p.Wait()
	c.mu.Lock()
	c.over = true
	alone := syscall.Kill(-c.pid, sigKill) == syscall.ESRCH // at once: the group's number stays taken while it has members
	c.mu.Unlock()
	if err != nil {
		return ending{err: err}
	}
	ws := st.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return ending{signal: int(ws.Signal()), alone: alone}
	}
	return ending{exit: ws.ExitStatus(), alone: alone}
}
