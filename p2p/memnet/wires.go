package memnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/p2p/line"
)

// Wires is an internet in memory: machines with an address, TCP between them. With it under a
// p2p.Host (p2p.Config.Sockets) all of libp2p is real. Directions are cut and slowed one by one; a
// stream that is cut in one direction stalls in that direction, as TCP does that repeats itself in
// vain, and loses nothing if it is healed: it goes on when TCP would try again next, which after a
// long cut is long after its end. It is safe for concurrent use.
type Wires struct {
	mu       sync.Mutex
	machines map[netip.Addr]*Machine // the newest of each address
	cuts     map[way]int
	since    map[way]time.Time // when the cut in force began
	lags     map[way]time.Duration
	lines    map[netip.Addr]*line.Line
	conns    map[*Conn]struct{} // the dialling ends
	port     uint16             // the last that was given to a dialling end
	wake     chan struct{}      // closed and replaced when something has changed
}

type way struct{ from, to netip.Addr }

// NewWires makes a network without machines.
func NewWires() *Wires {
	return &Wires{
		machines: map[netip.Addr]*Machine{}, cuts: map[way]int{}, since: map[way]time.Time{}, lags: map[way]time.Duration{}, lines: map[netip.Addr]*line.Line{}, conns: map[*Conn]struct{}{},
		wake: make(chan struct{}),
	}
}

// Machine boots a machine with this address; one that has it already must be dead. It answers for
// what its last life left behind: streams that others still hold open to that are reset.
func (w *Wires) Machine(ip netip.Addr) *Machine {
	w.mu.Lock()
	m := &Machine{w: w, ip: ip, listeners: map[uint16]*listener{}}
	w.machines[ip] = m
	w.changed()
	w.mu.Unlock()
	w.answer()
	return m
}

// answer resets the streams to machines that no longer know them, once those can say so.
func (w *Wires) answer() {
	var hit []*Conn
	w.mu.Lock()
	for c := range w.conns {
		for _, end := range []*Conn{c, c.other} {
			from, to := ipOf(end.local), ipOf(end.remote)
			if end.gone && !w.machines[from].dark && w.cuts[way{from, to}] == 0 && w.cuts[way{to, from}] == 0 {
				hit = append(hit, c)
				break
			}
		}
	}
	w.mu.Unlock()
	for _, c := range hit {
		c.reset()
	}
}

// Cut keeps everything from getting from one machine to another (n = 1) or takes that back (n =
// -1); cuts are counted. Dials between the two time out, whichever direction is cut.
func (w *Wires) Cut(from, to netip.Addr, n int) {
	w.mu.Lock()
	was := w.cuts[way{from, to}]
	w.cuts[way{from, to}] = was + n
	now := time.Now()
	switch {
	case was == 0:
		w.since[way{from, to}] = now
	case was+n == 0:
		w.resume(way{from, to}, now)
	}
	w.changed()
	w.mu.Unlock()
	w.answer()
}

// resume lets the streams go on that stalled in a direction. The lock is held.
func (w *Wires) resume(d way, now time.Time) {
	for c := range w.conns {
		for _, end := range []*Conn{c, c.other} {
			if ipOf(end.local) == d.from && ipOf(end.remote) == d.to {
				end.out.resume(w.since[d], now)
			}
		}
	}
}

// Lag makes what is written from one machine to another arrive d later.
func (w *Wires) Lag(from, to netip.Addr, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lags[way{from, to}] = d
}

// Slow has all streams of a machine together carry so many bytes per second in each direction; 0
// ends it. What is written then waits behind whatever else was written, the machine's next lives
// included.
func (w *Wires) Slow(ip netip.Addr, rate int64) { w.line(ip).Set(rate) }

func (w *Wires) line(ip netip.Addr) *line.Line {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lines[ip]
	if l == nil {
		l = &line.Line{}
		w.lines[ip] = l
	}
	return l
}

// changed wakes what waits for something to change. The lock is held.
func (w *Wires) changed() {
	close(w.wake)
	w.wake = make(chan struct{})
}

func ipOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr()
	}
	return netip.Addr{}
}

// severed implements medium.
func (w *Wires) severed(from, to net.Addr) (bool, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts[way{ipOf(from), ipOf(to)}] > 0, w.wake
}

// arrives implements medium.
func (w *Wires) arrives(from, to net.Addr, n int) time.Time {
	a, b := ipOf(from), ipOf(to)
	now := time.Now()
	leaves, comes := w.line(a).Out.Pass(now, n), w.line(b).In.Pass(now, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if leaves = leaves.Add(w.lags[way{a, b}]); leaves.After(comes) {
		return leaves
	}
	return comes
}

// forget implements medium.
func (w *Wires) forget(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// Machine is one life of a machine. It implements p2p.Sockets.
type Machine struct {
	w         *Wires
	ip        netip.Addr
	listeners map[uint16]*listener // under w.mu
	dead      bool                 // the process is gone: its ports refuse
	dark      bool                 // the machine is gone: nothing answers
}

// Kill ends the process: its streams are reset and its ports refuse. With power the whole machine
// goes: nothing answers, and others go on waiting for what it would have said. What the process
// itself still tries fails, but nobody tells it so: it may go on listening.
func (m *Machine) Kill(power bool) {
	w := m.w
	w.mu.Lock()
	if m.dead {
		w.mu.Unlock()
		return
	}
	m.dead, m.dark = true, power
	var mine []*Conn
	for c := range w.conns {
		for _, end := range []*Conn{c, c.other} {
			if ipOf(end.local) == m.ip {
				end.gone = true
				mine = append(mine, end)
			}
		}
	}
	w.changed()
	w.mu.Unlock()
	w.answer()
	for _, c := range mine {
		c.vanish()
	}
}

// Listen opens a port; 0 takes a free one.
func (m *Machine) Listen(at netip.AddrPort) (net.Listener, error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	port := at.Port()
	for port == 0 || m.listeners[port] != nil {
		if at.Port() != 0 {
			return nil, &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
		}
		m.w.port++
		port = m.w.port
	}
	if m.dead {
		return nil, net.ErrClosed
	}
	l := &listener{m: m, at: net.TCPAddrFromAddrPort(netip.AddrPortFrom(m.ip, port)), wake: make(chan struct{}), done: make(chan struct{})}
	m.listeners[port] = l
	m.w.changed()
	return l, nil
}

// Dial connects: refused at once where no process listens, not answered where there is no machine,
// or no way there and back. Like TCP it tries a second later again, then after three, after seven.
func (m *Machine) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w, begin := m.w, time.Now()
	for rode := false; ; {
		w.mu.Lock()
		there := w.machines[to.Addr()]
		lag := w.lags[way{m.ip, to.Addr()}] + w.lags[way{to.Addr(), m.ip}]
		var l *listener
		silent := w.cuts[way{m.ip, to.Addr()}] > 0 || w.cuts[way{to.Addr(), m.ip}] > 0 || there == nil || there.dark
		if !silent && !there.dead {
			l = there.listeners[to.Port()]
		}
		var c *Conn
		if !m.dead && l != nil && (rode || lag <= 0) {
			c = m.connect(l)
		}
		dead := m.dead
		w.mu.Unlock()
		var wait time.Duration
		switch {
		case c != nil:
			return c, nil
		case dead:
			return nil, net.ErrClosed
		case silent:
			wait = time.Until(resent(begin, time.Now().Add(1), synResend))
		case !rode && lag > 0:
			rode, wait = true, lag
		default:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		if pause.For(ctx, wait) != nil {
			return nil, fmt.Errorf("no answer from %s: %w", to, expired(ctx))
		}
	}
}

// connect makes a stream to a listener. The lock is held.
func (m *Machine) connect(l *listener) *Conn {
	m.w.port++
	from := net.TCPAddrFromAddrPort(netip.AddrPortFrom(m.ip, max(1024, m.w.port)))
	here, there := newStream(m.w, from, l.at)
	m.w.conns[here] = struct{}{}
	l.queue = append(l.queue, there)
	close(l.wake)
	l.wake = make(chan struct{})
	return here
}

type listener struct {
	m     *Machine
	at    *net.TCPAddr
	queue []*Conn       // under m.w.mu, like wake
	wake  chan struct{} // closed and replaced when the queue grows
	done  chan struct{}
	once  sync.Once
}

func (l *listener) close() { l.once.Do(func() { close(l.done) }) }

// Addr is the port's address.
func (l *listener) Addr() net.Addr { return l.at }

// Accept returns the next stream.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.m.w.mu.Lock()
		wake := l.wake
		var c *Conn
		if len(l.queue) > 0 {
			c, l.queue = l.queue[0], l.queue[1:]
		}
		l.m.w.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-wake:
		case <-l.done:
			return nil, net.ErrClosed
		}
	}
}

// Close closes the port, and resets who was not accepted yet.
func (l *listener) Close() error {
	l.m.w.mu.Lock()
	if l.m.listeners[uint16(l.at.Port)] == l {
		delete(l.m.listeners, uint16(l.at.Port))
	}
	left := l.queue
	l.queue = nil
	l.m.w.mu.Unlock()
	l.close()
	for _, c := range left {
		c.reset()
	}
	return nil
}
