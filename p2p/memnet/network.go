package memnet

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/pause"
)

// dialTimeout is how long a dial into silence takes, as on the real host.
const dialTimeout = 3 * time.Second

// Network is a set of hosts that can reach each other. It is safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	hosts map[string]*Host
	dead  map[string]bool
	cut   map[link]bool
	conns map[*Conn]struct{} // the dialling ends
	delay time.Duration
	wake  chan struct{} // closed and replaced when cuts or deaths change
	calls sync.WaitGroup
}

type link struct{ a, b string }

func pair(a, b string) link {
	if a > b {
		a, b = b, a
	}
	return link{a, b}
}

// New makes an empty network.
func New() *Network {
	return &Network{
		hosts: map[string]*Host{}, dead: map[string]bool{}, cut: map[link]bool{},
		conns: map[*Conn]struct{}{}, wake: make(chan struct{}),
	}
}

// Host returns the host of that name, made at the first call.
func (n *Network) Host(id string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[id]
	if h == nil {
		h = &Host{net: n, id: id, handlers: map[string]func(string, net.Conn){}}
		n.hosts[id] = h
	}
	return h
}

// Cut separates two peers: dials time out, streams stall.
func (n *Network) Cut(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[pair(a, b)] = true
	n.changed()
}

// Heal takes back every Cut: what was written into stalled streams arrives.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	n.changed()
}

// Kill ends peers, all at once: their streams are reset, dials to them are refused, their own dials
// fail. Their handlers stay for Revive.
func (n *Network) Kill(ids ...string) {
	n.mu.Lock()
	for _, id := range ids {
		n.dead[id] = true
	}
	hit := n.between(func(c *Conn) bool { return n.dead[c.local.String()] || n.dead[c.remote.String()] })
	n.changed()
	n.mu.Unlock()
	for _, c := range hit {
		c.reset()
	}
}

// Revive takes back Kill.
func (n *Network) Revive(ids ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		delete(n.dead, id)
	}
	n.changed()
}

// Reset breaks the streams between two peers, once; they can dial again at once.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	hit := n.between(func(c *Conn) bool { return pair(c.local.String(), c.remote.String()) == pair(a, b) })
	n.mu.Unlock()
	for _, c := range hit {
		c.reset()
	}
}

// Delay makes every later write arrive d after it was made, and a dial take d.
func (n *Network) Delay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// Close resets every stream and waits for the handlers to return.
func (n *Network) Close() error {
	n.mu.Lock()
	for id := range n.hosts {
		n.dead[id] = true
	}
	hit := n.between(func(*Conn) bool { return true })
	n.changed()
	n.mu.Unlock()
	for _, c := range hit {
		c.reset()
	}
	n.calls.Wait()
	return nil
}

// between lists streams, by their dialling end. The lock is held.
func (n *Network) between(match func(*Conn) bool) []*Conn {
	var hit []*Conn
	for c := range n.conns {
		if match(c) {
			hit = append(hit, c)
		}
	}
	return hit
}

// changed wakes what waits for a cut or a death to change. The lock is held.
func (n *Network) changed() {
	close(n.wake)
	n.wake = make(chan struct{})
}

// severed implements medium.
func (n *Network) severed(a, b net.Addr) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[pair(a.String(), b.String())], n.wake
}

// arrives implements medium.
func (n *Network) arrives(net.Addr, net.Addr, int) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.delay)
}

// forget implements medium.
func (n *Network) forget(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// Host is one peer of a Network. It implements p2p.Net.
type Host struct {
	net      *Network
	id       string
	handlers map[string]func(string, net.Conn) // under net.mu
}

// Self is the peer's name.
func (h *Host) Self() string { return h.id }

// Handle serves a protocol; nil stops serving it.
func (h *Host) Handle(protocol string, f func(peer string, c net.Conn)) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if f == nil {
		delete(h.handlers, protocol)
		return
	}
	h.handlers[protocol] = f
}

// Dial opens a stream. A dead or unknown peer refuses at once (p2p.Refused), a cut one times out
// after three seconds, unless Heal comes first.
func (h *Host) Dial(ctx context.Context, peer, protocol string) (net.Conn, error) {
	if peer == h.id {
		return nil, fmt.Errorf("dial %s: to itself", peer)
	}
	ctx, cancel := context.WithTimeout(ctx, h.patience())
	defer cancel()
	if err := h.reach(ctx, peer); err != nil {
		return nil, fmt.Errorf("dial %s %s: %w", peer, protocol, err)
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead[h.id] || n.dead[peer] { // it died during the delay
		return nil, refused(peer)
	}
	f := n.hosts[peer].handlers[protocol]
	if f == nil {
		return nil, fmt.Errorf("dial %s: protocol %s is not served there", peer, protocol)
	}
	here, there := newStream(n, Addr(h.id), Addr(peer))
	n.conns[here] = struct{}{}
	n.calls.Go(func() { f(h.id, there) })
	return here, nil
}

// Connect checks that a peer answers; addrs are not needed here.
func (h *Host) Connect(ctx context.Context, peer string, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, h.patience())
	defer cancel()
	return h.reach(ctx, peer)
}

// RTT is the round trip to any peer.
func (h *Host) RTT(string) time.Duration {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return 2 * h.net.delay
}

// patience is how long a dial waits, as on the real host.
func (h *Host) patience() time.Duration { return far.Allow(dialTimeout, h.RTT("")) }

// SetAddrs does nothing: names are enough here.
func (h *Host) SetAddrs(string, []string) {}

// reach waits until a connection to peer stands.
func (h *Host) reach(ctx context.Context, peer string) error {
	n := h.net
	for {
		n.mu.Lock()
		self, there, known := n.dead[h.id], n.dead[peer], n.hosts[peer] != nil
		cut, wake, delay := n.cut[pair(h.id, peer)], n.wake, n.delay
		n.mu.Unlock()
		switch {
		case self:
			return net.ErrClosed
		case cut:
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return fmt.Errorf("no answer: %w", expired(ctx))
			}
		case there || !known:
			return refused(peer)
		case delay <= 0:
			return ctx.Err()
		}
		if pause.For(ctx, delay) != nil {
			return fmt.Errorf("no answer: %w", expired(ctx))
		}
		return nil
	}
}

func refused(peer string) error {
	return &net.OpError{Op: "dial", Net: "mem", Addr: Addr(peer), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func expired(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return os.ErrDeadlineExceeded
}

// Sign makes a signature that Verify takes. It protects nothing: it stands in for p2p's in tests.
func (h *Host) Sign(data []byte) ([]byte, error) { return seal(h.id, data), nil }

// Verify checks a signature made by the Sign of the host named peer.
func Verify(peer string, data, sig []byte) error {
	if subtle.ConstantTimeCompare(seal(peer, data), sig) != 1 {
		return fmt.Errorf("the signature is not %s's", peer)
	}
	return nil
}

func seal(id string, data []byte) []byte {
	s := sha256.New()
	fmt.Fprintf(s, "%d:%s:", len(id), id)
	s.Write(data)
	return s.Sum(nil)
}
