package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func (c *Client) disconnect() {
	if c.conn != nil {
		c.mu.Lock()
		c.up = nil
		c.mu.Unlock()
		_ = c.conn.Close()
		c.read.Wait()
		c.conn = nil
		select {
		case <-c.lost: // known
		default:
		}
	}
}

// connect finds the supervisor that is there.
func (c *Client) connect() error {
	c.foreign = nil
	path, done, err := shortPath(c.cfg.Dir, socketName)
	if err != nil {
		return err
	}
	defer done()
	conn, err := net.DialTimeout("unix", path, startWait)
	if err != nil {
		return err
	}
	c.conn = conn
	return nil
}

// shortPath names a file of a folder whose path may be too long for a socket.
func shortPath(dir, name string) (path string, done func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name), func() { _ = d.Close() }, nil
}

// greet says hello and takes in what the supervisor has.
func (c *Client) greet(found func(Event)) error {
	err := c.hello(found)
	if err != nil {
		_ = c.conn.Close()
		c.conn = nil
		return fmt.Errorf("the supervisor of this peer's tasks does not answer: %w; see %s", err, filepath.Join(c.cfg.Dir, logName))
	}
	return nil
}

func (c *Client) hello(found func(Event)) error {
	_ = c.conn.SetDeadline(time.Now().Add(startWait))
	o := order{kind: orderHello, version: protocolVersion, logCap: c.cfg.LogCap, grace: c.cfg.Grace, guard: c.cfg.Guard}
	if _, err := c.conn.Write(appendFrame(nil, appendOrder(nil, o))); err != nil {
		return err
	}
	r := bufio.NewReaderSize(c.conn, 16<<10)
	if err := c.answered(r); err != nil {
		return err
	}
	spoken := 0
	for first := true; ; first = false {
		body, err := readFrame(r, nil)
		if err != nil {
			return err
		}
		e, err := decodeEvent(body)
		switch {
		case err != nil:
			return err
		case first && (e.Kind != welcome || e.version < oldestVersion || e.version > protocolVersion):
			c.foreign = fmt.Errorf("it speaks version %d of the protocol, this peer %d to %d: go back to the program it was started by until its tasks have ended", e.version, oldestVersion, protocolVersion)
			return c.foreign
		case first:
			spoken = e.version
		case e.Kind == synced:
			_ = c.conn.SetDeadline(time.Time{})
			conn := c.conn
			c.mu.Lock()
			c.up, c.spoken = conn, spoken
			c.mu.Unlock()
			c.read.Go(func() { c.listen(conn, r, spoken) })
			return nil
		default:
			found(e.heard(spoken, c.cfg.LogCap))
		}
	}
}

// answered waits for a supervisor's first word. One whose disk is stuck comes to it when the disk
// answers: what is to be started there waits for that and must not fail. Should the supervisor end,
// so does the wait. A peer that begins or ends does not wait for longer than it must.
func (c *Client) answered(r *bufio.Reader) error {
	patience := c.cfg.wait()
	for start, said := time.Now(), false; ; {
		_ = c.conn.SetReadDeadline(time.Now().Add(min(patience, answerLook)))
		_, err := r.Peek(1)
		late := time.Since(start) >= patience
		switch {
		case err == nil:
			_ = c.conn.SetDeadline(time.Now().Add(startWait))
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded), late && (!c.met || c.closing()):
			return err
		case late && !said:
			said = true
			c.cfg.Warn("the supervisor of this peer's tasks does not answer yet, new tasks wait for it; if that lasts, look whether the disk of " + c.cfg.Dir + " is stuck")
		}
	}
}

func (c *Client) closing() bool {
	select {
	case <-c.quit:
		return true
	default:
		return false
	}
}

// listen hands on what the supervisor says.
func (c *Client) listen(conn net.Conn, r *bufio.Reader, spoken int) {
	var buf []byte
	for {
		body, err := readFrame(r, buf)
		if err != nil {
			break
		}
		e, err := decodeEvent(body)
		if err != nil {
			c.cfg.Warn("the supervisor: " + err.Error())
			break
		}
		c.cfg.Sink(e.heard(spoken, c.cfg.LogCap))
		buf = body
	}
	select {
	case c.lost <- conn:
	default: // one is as good as two: run looks which
	}
}
