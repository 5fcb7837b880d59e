package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// streamLayer is raft's network: streams of RaftProtocol between servers of one generation.
type streamLayer struct {
	net        dialer
	generation uint64
	self       Voter
	foreign    func(peer taskstate.PeerID, generation uint64, others ...taskstate.PeerID) // told when the other side is of another generation
	broke      func()                                                                     // told when a stream ends

	show  func() []mark.Signed                        // what is said about marks in greetings; nil: nothing
	learn func(taskstate.PeerID, []mark.Signed) error // what the other side says about them; its error ends the stream
	end   func(*raftHello)                            // adds the newest entry of the log, if the other side may hear of it
	check func(*logPoint) error                       // what the other side says about its log; its error ends the stream

	accept chan net.Conn
	done   chan struct{}

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// dialer is the half of p2p.Net that opens streams.
type dialer interface {
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
}

func newStreamLayer(n dialer, generation uint64, self Voter, foreign func(taskstate.PeerID, uint64, ...taskstate.PeerID), broke func()) *streamLayer {
	return &streamLayer{
		net: n, generation: generation, self: self, foreign: foreign, broke: broke,
		accept: make(chan net.Conn), done: make(chan struct{}), conns: make(map[net.Conn]struct{}),
	}
}

// Dial implements raft.StreamLayer. Raft's own connections to itself (see seat.elect) stay in
// memory.
func (s *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if string(address) == s.self.server() {
		return s.dialSelf()
	}
	peer, _, err := parseServer(string(address))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), far.For(s.net, peer, min(timeout, raftHelloTimeout)))
	defer cancel()
	c, err := s.dialGreet(ctx, peer, string(address))
	if errors.Is(err, errOvertaken) {
		c, err = s.dialGreet(ctx, peer, string(address))
	}
	if err != nil {
		return nil, err
	}
	return s.keep(c, peer)
}

// errOvertaken: the greeting was refused, and showed a mark that is no longer this voter's. Two
// streams to one voter begin side by side; whose greeting is read last may show the older mark, and
// looks like a voter whose folder was turned back.
var errOvertaken = errors.New("its mark is newer by now than what it was greeted with")

// dialGreet opens a stream and greets once.
func (s *streamLayer) dialGreet(ctx context.Context, peer taskstate.PeerID, to string) (net.Conn, error) {
	c, err := s.net.Dial(ctx, peer, RaftProtocol)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(far.For(s.net, peer, raftHelloTimeout)))
	if err := s.greet(c, peer, to); err != nil {
		_ = c.Close()
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	return c, nil
}

// greet is the dialling side of the hello. The answer is one small frame, and raft says nothing
// before it is asked: no byte of raft's is swallowed by the reader's buffer.
func (s *streamLayer) greet(c net.Conn, peer taskstate.PeerID, to string) error {
	h := raftHello{Generation: s.generation, From: s.self.server(), To: to}
	if s.show != nil {
		h.Marks = s.show()
	}
	if s.end != nil {
		s.end(&h)
	}
	if err := wire.NewWriter(c, raftHelloCap).Send(h); err != nil {
		return fmt.Errorf("greet voter %s: %w", to, err)
	}
	var a raftAnswer
	if err := wire.NewReader(c, raftHelloCap).Read(&a); err != nil {
		return fmt.Errorf("greet voter %s: %w", to, err)
	}
	if s.learn != nil {
		if err := s.learn(peer, a.Marks); err != nil {
			return err
		}
	}
	if s.check != nil {
		if err := s.check(a.Log); err != nil {
			return err
		}
	}
	if a.OK {
		return nil
	}
	if a.Generation > s.generation {
		s.foreign(peer, a.Generation)
	}
	err := fmt.Errorf("voter %s refuses: %s", to, a.Why)
	if s.show != nil && s.own(h.Marks).Behind(s.own(s.show())) {
		return fmt.Errorf("%w; %w", err, errOvertaken)
	}
	return err
}

// own is this voter's own mark among those that are shown, an empty one if it is not there.
func (s *streamLayer) own(shown []mark.Signed) mark.Mark {
	i := slices.IndexFunc(shown, func(x mark.Signed) bool { return x.Mark.Server == s.self.server() })
	if i < 0 {
		return mark.Mark{}
	}
	return shown[i].Mark
}

func (s *streamLayer) dialSelf() (net.Conn, error) {
	a, b := net.Pipe()
	if _, err := s.keep(a, s.self.Peer); err != nil {
		return nil, err
	}
	if err := s.offer(b, s.self.Peer); err != nil {
		return nil, err
	}
	return a, nil
}

// keep remembers a connection, so that Close ends it.
func (s *streamLayer) keep(c net.Conn, peer taskstate.PeerID) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	s.conns[c] = struct{}{}
	return &keptConn{Conn: c, layer: s, peer: peer}, nil
}

// offer hands an accepted connection to raft and returns at once; raft owns it then.
func (s *streamLayer) offer(c net.Conn, peer taskstate.PeerID) error {
	k, err := s.keep(c, peer)
	if err != nil {
		return err
	}
	select {
	case s.accept <- k:
		return nil
	case <-s.done:
		_ = k.Close()
		return net.ErrClosed
	}
}

func (s *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-s.accept:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener and every connection, dialled or accepted.
func (s *streamLayer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	for c := range s.conns {
		_ = c.Close()
	}
	clear(s.conns)
	return nil
}

// Addr implements net.Listener: the own server.
func (s *streamLayer) Addr() net.Addr { return serverAddr(s.self.server()) }

type serverAddr string

func (serverAddr) Network() string  { return "covey" }
func (a serverAddr) String() string { return string(a) }

// keptConn forgets itself when raft closes it, which raft does when the other side has.
type keptConn struct {
	net.Conn
	layer *streamLayer
	peer  taskstate.PeerID // at the other end
}

// SetDeadline implements net.Conn. Raft's own deadlines are those of fast links: a voter that is
// far away has some round trips.
func (k *keptConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		return k.Conn.SetDeadline(t)
	}
	now := time.Now()
	return k.Conn.SetDeadline(now.Add(far.For(k.layer.net, k.peer, t.Sub(now))))
}

func (k *keptConn) Close() error {
	k.layer.mu.Lock()
	delete(k.layer.conns, k.Conn)
	k.layer.mu.Unlock()
	k.layer.broke()
	return k.Conn.Close()
}

// errNoSeat answers a peer that sends raft messages to a peer that holds no vote.
var errNoSeat = errors.New("this peer is not a voter")
