package p2p

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// Net opens and serves streams between named peers. Host implements it on libp2p, memnet.Host in
// memory.
type Net interface {
	// Self is the own peer id.
	Self() string
	// Dial opens a stream to peer. It fails within three seconds – some round trips, if the peer is
	// known to be far away – or when ctx ends; Refused tells
	// why. The caller closes it.
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
	// Handle serves protocol: h runs in its own goroutine for each inbound stream and closes c. A
	// nil h stops serving.
	Handle(protocol string, h func(peer string, c net.Conn))
}

// Addr is a peer id as a net.Addr.
type Addr string

// Network is "libp2p".
func (Addr) Network() string { return "libp2p" }

// String is the peer id.
func (a Addr) String() string { return string(a) }

type conn struct {
	network.Stream
	once sync.Once
	done chan struct{}
	// silent is called when a Read has waited for silentFor in vain; nil: not.
	silent func()
	// barred is called when the other side's gate refused the stream; nil: not.
	barred func()

	readBy, writeBy deadline

	// A stranger's stream: deadlines cannot be moved beyond last, and only so many bytes are read.
	last time.Time
	left int64
}

// deadline is one that was set.
type deadline struct{ at atomic.Pointer[time.Time] }

func (d *deadline) set(t time.Time) { d.at.Store(&t) }

func (d *deadline) passed() bool {
	t := d.at.Load()
	return t != nil && !t.IsZero() && !time.Now().Before(*t)
}

// silentFor is how long a Read waits in vain before somebody looks whether the connection lives.
// Those who wait for a sign of life every second end at three; what is slower is no reason to close
// anything, and costs one hello.
const silentFor = 2 * time.Second

func newConn(s network.Stream, stranger bool) *conn {
	c := &conn{Stream: s, done: make(chan struct{}), left: -1}
	if stranger {
		c.last, c.left = time.Now().Add(strangerTime), strangerBytes
	}
	return c
}

func (c *conn) LocalAddr() net.Addr  { return Addr(c.Conn().LocalPeer().String()) }
func (c *conn) RemoteAddr() net.Addr { return Addr(c.Conn().RemotePeer().String()) }

// errTooMuch ends a stranger's stream.
var errTooMuch = errors.New("a peer that is not admitted sent more than it may")

// Read returns os.ErrDeadlineExceeded past its deadline, net.ErrClosed after Close, ErrNotAdmitted,
// ErrBusy or ErrTooMany if the other side's gate refused the stream.
func (c *conn) Read(b []byte) (int, error) {
	if c.left >= 0 {
		if c.left == 0 {
			return 0, errTooMuch
		}
		b = b[:min(int64(len(b)), c.left)]
	}
	begin := time.Now()
	n, err := c.Stream.Read(b)
	if c.left >= 0 {
		c.left -= int64(n)
	}
	err = c.explain(err, &c.readBy)
	if c.silent != nil && errors.Is(err, os.ErrDeadlineExceeded) && time.Since(begin) >= silentFor {
		c.silent()
	}
	if c.barred != nil && errors.Is(err, ErrNotAdmitted) {
		c.barred()
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Stream.Write(b)
	return n, c.explain(err, &c.writeBy)
}

func (c *conn) explain(err error, by *deadline) error {
	if err == nil || err == io.EOF {
		return err
	}
	select {
	case <-c.done:
		return net.ErrClosed
	default:
	}
	// Each transport has its own; and a connection on which the other side was silent for too long
	// ends with a timeout as well, now and ever after, and must not be taken for a deadline.
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() && by.passed() && !errors.As(err, new(*network.StreamError)) {
		return os.ErrDeadlineExceeded
	}
	return gated(err)
}

// Close ends both directions; what was written is still delivered. It unblocks Read at once.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.done) })
	// A Read that still waits for the other side to agree on the protocol would hold up Close, and
	// so would a peer that does not read.
	c.Stream.SetReadDeadline(time.Now())
	c.Stream.SetWriteDeadline(c.capped(time.Now().Add(dialTimeout)))
	return c.Stream.Close()
}

func (c *conn) capped(t time.Time) time.Time {
	if !c.last.IsZero() && (t.IsZero() || t.After(c.last)) {
		return c.last
	}
	return t
}

// SetDeadline is of net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	t = c.capped(t)
	c.readBy.set(t)
	c.writeBy.set(t)
	return c.Stream.SetDeadline(t)
}

// SetReadDeadline is of net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	t = c.capped(t)
	c.readBy.set(t)
	return c.Stream.SetReadDeadline(t)
}

// SetWriteDeadline is of net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	t = c.capped(t)
	c.writeBy.set(t)
	return c.Stream.SetWriteDeadline(t)
}
