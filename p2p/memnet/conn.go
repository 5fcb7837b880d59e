package memnet

import (
	"net"
	"os"
	"sync"
	"time"
)

// Addr is a peer id as a net.Addr.
type Addr string

// Network is "mem".
func (Addr) Network() string { return "mem" }

// String is the peer id.
func (a Addr) String() string { return string(a) }

// medium is what a stream runs over, and how it is hurt.
type medium interface {
	// severed tells whether nothing gets from one end to the other now, and when to look again.
	severed(from, to net.Addr) (bool, <-chan struct{})
	// arrives is when n bytes arrive that are written now.
	arrives(from, to net.Addr, n int) time.Time
	// forget is told about the dialling end when nothing can happen to the stream any more.
	forget(dialler *Conn)
}

// Conn is one end of a stream. It implements net.Conn, and CloseWrite as the real streams do.
type Conn struct {
	net           medium
	local, remote net.Addr
	in, out       *pipe
	dialler       *Conn // the end that the network keeps
	other         *Conn
	rd, wr        deadline
	done          chan struct{} // closed by Close
	once          sync.Once
	gone          bool // on Wires: this end's machine or process is no more; under the Wires' lock
}

func newStream(n medium, a, b net.Addr) (here, there *Conn) {
	up, down := newPipe(), newPipe()
	here = &Conn{net: n, local: a, remote: b, in: down, out: up, rd: makeDeadline(), wr: makeDeadline(), done: make(chan struct{})}
	there = &Conn{net: n, local: b, remote: a, in: up, out: down, rd: makeDeadline(), wr: makeDeadline(), done: make(chan struct{})}
	here.dialler, there.dialler = here, here
	here.other, there.other = there, here
	return here, there
}

// LocalAddr is the own peer id, or the own socket's address on Wires.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other's.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Read returns what has arrived, waits if nothing has.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		select {
		case <-c.done:
			return 0, net.ErrClosed
		case <-c.rd.wait():
			return 0, os.ErrDeadlineExceeded
		default:
		}
		cut, healed := c.net.severed(c.remote, c.local)
		n, due, wake, err := c.in.take(p, cut)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		c.await(&c.rd, wake, healed, due)
	}
}

// Write buffers p for the other end, waits while the window is full.
func (c *Conn) Write(p []byte) (int, error) {
	written := 0
	for {
		select {
		case <-c.done:
			return written, net.ErrClosed
		case <-c.wr.wait():
			return written, os.ErrDeadlineExceeded
		default:
		}
		part := p[written:]
		part = part[:min(len(part), c.out.room())]
		n, wake, err := c.out.put(part, c.net.arrives(c.local, c.remote, len(part)))
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
		c.await(&c.wr, wake, nil, time.Time{})
	}
}

// await blocks until something may have changed.
func (c *Conn) await(d *deadline, wake, healed <-chan struct{}, due time.Time) {
	var at <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		at = t.C
	}
	select {
	case <-c.done:
	case <-d.wait():
	case <-wake:
	case <-healed:
	case <-at:
	}
}

// CloseWrite says that nothing more will be written; reading goes on.
func (c *Conn) CloseWrite() error {
	c.out.finish()
	return nil
}

// Close ends both directions and unblocks Read and Write at once.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.out.finish()
		c.in.abandon()
		c.forget()
	})
	return nil
}

// reset breaks both ends: what was buffered is lost.
func (c *Conn) reset() {
	c.in.fail()
	c.out.fail()
	c.forget()
}

// forget drops the stream from the network's list once either end is closed and nothing can be
// reset any more.
func (c *Conn) forget() {
	if c.in.over() && c.out.over() {
		c.net.forget(c.dialler)
	}
}

// vanish ends this end without a word to the other, as a machine without power does.
func (c *Conn) vanish() { c.once.Do(func() { close(c.done) }) }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.rd.set(t)
	c.wr.set(t)
	return nil
}

// SetReadDeadline unblocks Read at t; the zero time never does.
func (c *Conn) SetReadDeadline(t time.Time) error { c.rd.set(t); return nil }

// SetWriteDeadline unblocks Write at t; the zero time never does.
func (c *Conn) SetWriteDeadline(t time.Time) error { c.wr.set(t); return nil }
