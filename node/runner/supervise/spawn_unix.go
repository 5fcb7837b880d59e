//go:build unix && !linux

package supervise

import "syscall"

// apart makes a child the leader of a group of its own.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signal sends to the whole group; false means that the process has ended.
func (c *child) signal(sig syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.over && syscall.Kill(-c.pid, sig) == nil
}

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
