package supervise

import "syscall"

// apart keeps console signals from a child. Windows has no process groups in our sense and no
// SIGTERM: stopping kills the process itself, at once, and what it started lives on.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// signal kills, whatever sig is; false means that the process has ended.
func (c *child) signal(syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.over && c.p.Kill() == nil
}

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
