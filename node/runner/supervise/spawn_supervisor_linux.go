package supervise

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// start starts a supervisor. Its socket is bound here, so that it can be dialled at once and what
// goes wrong is known.
func (c *Client) start() error {
	lock, err := c.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	path, done, err := shortPath(c.cfg.Dir, socketName)
	if err != nil {
		return err
	}
	defer done()
	_ = os.Remove(path) // the holder of the lock owns the name
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("socket of the supervisor: %w", err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	socket, err := l.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	log, err := openLogFile(filepath.Join(c.cfg.Dir, logName))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", beginWord, c.cfg.Dir) // this very program, even if its file was replaced
	cmd.Args[0] = os.Args[0]
	cmd.Env = []string{beginEnv + "=1", "GOMAXPROCS=" + strconv.Itoa(max(1, min(4, runtime.NumCPU()/2)))}
	cmd.Dir = c.cfg.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{socket, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.cfg.Born {
		sandbox.InUserNamespace(cmd.SysProcAttr)
	}
	keepDescriptors() // a pipe that the supervisor held would never end
	if err := withSlack(ownSlack, cmd.Start); err != nil {
		return fmt.Errorf("the supervisor of this peer's tasks does not start: %w", err)
	}
	c.child = cmd.Process.Pid
	_ = cmd.Process.Release() // reaped in reap
	return c.connect()
}

// lock takes the supervisor's lock, which one that is about to end may still hold for a moment.
func (c *Client) lock() (*os.File, error) {
	c.reap(startWait)
	f, err := os.OpenFile(filepath.Join(c.cfg.Dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(c.cfg.wait()); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if time.Now().After(end) {
			_ = f.Close()
			if c.foreign != nil { // ended by hand, it would take its tasks with it
				return nil, fmt.Errorf("the supervisor of this peer's tasks has some that run: %w", c.foreign)
			}
			return nil, fmt.Errorf("another supervisor holds %s and does not answer: %w; end it by hand", filepath.Join(c.cfg.Dir, lockName), err)
		}
	}
}

// reap takes note of the end of a supervisor this process started, so that it does not stay in the
// list of processes.
func (c *Client) reap(patience time.Duration) {
	if c.child == 0 {
		return
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		pid, err := retry(func() (int, error) { return syscall.Wait4(c.child, nil, syscall.WNOHANG, nil) })
		if pid == c.child || err != nil || time.Now().After(end) {
			break
		}
	}
	c.child = 0
}

// EndAll ends the supervisor of a tasks folder and everything it runs, and returns when that is
// done. No peer may use the folder. It is for testnets and tests, which leave nothing behind.
func EndAll(dir string) error {
	c := &Client{cfg: ClientConfig{Dir: dir, Warn: func(string) {}}, lost: make(chan net.Conn, 1), open: map[string]bool{}}
	if err := c.connect(); err != nil {
		return nil //nolint:nilerr // nobody there
	}
	defer c.disconnect()
	words := appendFrame(nil, appendOrder(nil, order{kind: orderHello, version: protocolVersion}))
	words = appendFrame(words, appendOrder(nil, order{kind: orderEnd}))
	_, _ = c.conn.Write(words) // if it fails, the supervisor is about to end
	lock, err := c.lock()
	if err != nil {
		return err
	}
	return lock.Close()
}
