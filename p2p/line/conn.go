package line

import (
	"net"
	"os"
	"sync"
	"time"
)

// conn is a connection on a line. While the line has no limit, and had none before, reading and
// writing are the connection's own. Otherwise one goroutine for each direction moves bytes through
// a queue: the writing one ends when its queue is empty, the reading one with the connection.
type conn struct {
	net.Conn
	line *Line
	done chan struct{} // closed by Close
	once sync.Once
	wg   sync.WaitGroup

	writing, reading sync.Mutex // taken first, for a whole Write or Read

	mu       sync.Mutex
	shut     bool // by Close: nothing begins any more
	out      []chunk
	sends    bool // a goroutine sends out
	broken   error
	in       []chunk
	size     int // of in
	receives bool
	ended    error         // after in
	deadline time.Time     // of reading
	wake     chan struct{} // closed and replaced when in, ended or deadline has changed
}

type chunk struct {
	data []byte
	due  time.Time // when it has left the line
}

// changed wakes who reads and who receives. The lock is held.
func (c *conn) changed() {
	close(c.wake)
	c.wake = make(chan struct{})
}

// Write returns when the queue has taken b.
func (c *conn) Write(b []byte) (written int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for written < len(b) {
		c.mu.Lock()
		direct, broken := !c.sends && !c.line.Out.Limited(), c.broken
		c.mu.Unlock()
		if broken != nil {
			return written, broken
		}
		if direct {
			n, err := c.Conn.Write(b[written:])
			return written + n, err
		}
		part := b[written:min(len(b), written+segment)]
		due, ok := c.enter(part)
		if !ok || !until(due.Add(-Queue), c.done) {
			return written, net.ErrClosed
		}
		written += len(part)
	}
	return written, nil
}

// enter puts bytes into the queue to be sent.
func (c *conn) enter(b []byte) (due time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return due, false
	}
	due = c.line.Out.Pass(time.Now(), len(b))
	c.out = append(c.out, chunk{append([]byte(nil), b...), due})
	if !c.sends {
		c.sends = true
		c.wg.Go(c.send)
	}
	return due, true
}

func (c *conn) send() {
	for {
		c.mu.Lock()
		if len(c.out) == 0 || c.broken != nil {
			c.out, c.sends = nil, false
			c.mu.Unlock()
			return
		}
		next := c.out[0]
		c.out = c.out[1:]
		c.mu.Unlock()
		err := net.ErrClosed
		if until(next.due, c.done) {
			_, err = c.Conn.Write(next.data)
		}
		if err != nil {
			c.mu.Lock()
			c.broken = err
			c.mu.Unlock()
		}
	}
}

// Read returns what has left the line.
func (c *conn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.mu.Lock()
	if !c.receives {
		if c.shut || !c.line.In.Limited() {
			c.mu.Unlock()
			return c.Conn.Read(b)
		}
		c.receives = true
		_ = c.Conn.SetReadDeadline(time.Time{}) // from now on it is kept here
		c.wg.Go(c.receive)
	}
	c.mu.Unlock()
	for {
		n, at, wake, err := c.take(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		var due <-chan time.Time
		if !at.IsZero() {
			timer := time.NewTimer(time.Until(at))
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-wake:
		case <-due:
		case <-c.done:
			return 0, net.ErrClosed
		}
	}
}

// take copies what is due, or says when to look again.
func (c *conn) take(b []byte) (n int, at time.Time, wake <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.deadline.IsZero() && !now.Before(c.deadline) {
		return 0, at, nil, os.ErrDeadlineExceeded
	}
	for len(c.in) > 0 && n < len(b) && !c.in[0].due.After(now) {
		k := copy(b[n:], c.in[0].data)
		n += k
		if c.in[0].data = c.in[0].data[k:]; len(c.in[0].data) == 0 {
			c.in = c.in[1:]
		}
	}
	switch {
	case n > 0:
		c.size -= n
		c.changed()
		return n, at, nil, nil
	case len(c.in) > 0:
		at = c.in[0].due
	case c.ended != nil:
		return 0, at, nil, c.ended
	}
	if !c.deadline.IsZero() && (at.IsZero() || c.deadline.Before(at)) {
		at = c.deadline
	}
	return 0, at, c.wake, nil
}

func (c *conn) receive() {
	b := make([]byte, segment)
	for {
		n, err := c.Conn.Read(b)
		due := c.came(b[:n], err)
		if err != nil || !until(due.Add(-Queue), c.done) || !c.room() {
			return
		}
	}
}

// came puts bytes into the queue to be read.
func (c *conn) came(b []byte, err error) (due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due = c.line.In.Pass(time.Now(), len(b))
	if len(b) > 0 {
		c.in = append(c.in, chunk{append([]byte(nil), b...), due})
		c.size += len(b)
	}
	c.ended = err
	c.changed()
	return due
}

// room waits until what came is read, and tells whether it was before Close.
func (c *conn) room() bool {
	for {
		c.mu.Lock()
		size, wake := c.size, c.wake
		c.mu.Unlock()
		if size <= inside {
			return true
		}
		select {
		case <-wake:
		case <-c.done:
			return false
		}
	}
}

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

// SetReadDeadline ends Read at t; the zero time never does.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.changed()
	if c.receives {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// Close loses what is still in a queue, as connections do that are closed without lingering.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.mu.Lock()
		c.shut = true
		c.mu.Unlock()
		close(c.done)
	})
	err := c.Conn.Close()
	c.wg.Wait()
	return err
}
