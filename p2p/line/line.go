package line

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// Queue is how long bytes wait in front of a line before more are accepted: about what the routers
// of slow lines keep.
const Queue = 250 * time.Millisecond

// Least is the slowest line, in bytes per second.
const Least = 8 << 10

const (
	segment = 4 << 10 // what enters a line at once
	inside  = 4 << 20 // what has come over one connection, but is not read yet
)

// Lane is one direction of a line: what enters it leaves it in that order, at a rate. The zero Lane
// has no limit.
type Lane struct {
	mu   sync.Mutex
	rate int64     // bytes per second; 0: no limit
	free time.Time // when all that has entered has left
}

// Set makes the lane carry so many bytes per second, at least Least; 0 ends the limit.
func (l *Lane) Set(rate int64) {
	if rate > 0 {
		rate = max(rate, Least)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate = rate; rate <= 0 {
		l.rate, l.free = 0, time.Time{}
	}
}

// Limited tells whether there is a limit.
func (l *Lane) Limited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rate > 0
}

// Pass lets n bytes enter at a moment, and says when they leave.
func (l *Lane) Pass(now time.Time, n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == 0 {
		return now
	}
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	return l.free
}

// Line is what one machine's connections share. The zero Line has no limit.
type Line struct{ Out, In Lane }

// Set limits both directions.
func (l *Line) Set(rate int64) {
	l.Out.Set(rate)
	l.In.Set(rate)
}

// Conn puts a connection on the line.
func (l *Line) Conn(c net.Conn) net.Conn {
	return &conn{Conn: c, line: l, done: make(chan struct{}), wake: make(chan struct{})}
}

// UDP puts a socket on the line. Who sends waits until it has left, and what comes waits in the
// system's queue, which drops what does not fit.
func (l *Line) UDP(c *net.UDPConn) net.PacketConn {
	return &packets{c: c, line: l, done: make(chan struct{})}
}

// until waits for a moment, and tells whether it came before done.
func until(t time.Time, done <-chan struct{}) bool {
	wait := time.Until(t)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

// packets has what QUIC needs of a socket, without what would pass by the line.
type packets struct {
	c    *net.UDPConn
	line *Line
	done chan struct{}
	once sync.Once
}

// ReadFrom returns the next packet, once it has passed the line.
func (p *packets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.c.ReadFrom(b)
	if err == nil && !until(p.line.In.Pass(time.Now(), n), p.done) {
		return 0, nil, net.ErrClosed
	}
	return n, from, err
}

// WriteTo sends a packet, once it has passed the line.
func (p *packets) WriteTo(b []byte, to net.Addr) (int, error) {
	if !until(p.line.Out.Pass(time.Now(), len(b)), p.done) {
		return 0, net.ErrClosed
	}
	return p.c.WriteTo(b, to)
}

// Close closes the socket, and wakes who waits.
func (p *packets) Close() error {
	p.once.Do(func() { close(p.done) })
	return p.c.Close()
}

// The rest is the socket's.

func (p *packets) LocalAddr() net.Addr                   { return p.c.LocalAddr() }
func (p *packets) SetDeadline(t time.Time) error         { return p.c.SetDeadline(t) }
func (p *packets) SetReadDeadline(t time.Time) error     { return p.c.SetReadDeadline(t) }
func (p *packets) SetWriteDeadline(t time.Time) error    { return p.c.SetWriteDeadline(t) }
func (p *packets) SetReadBuffer(n int) error             { return p.c.SetReadBuffer(n) }
func (p *packets) SetWriteBuffer(n int) error            { return p.c.SetWriteBuffer(n) }
func (p *packets) SyscallConn() (syscall.RawConn, error) { return p.c.SyscallConn() }
