package membership

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/p2p"

	"github.com/hashicorp/memberlist"
)

const (
	packetBytes   = 8 << 10          // memberlist packs at most so much into a packet
	senderIdle    = 60 * time.Second // a neighbour without packets for so long loses its stream
	writeDeadline = 2 * time.Second
	packetStreams = 4 // inbound packet streams per peer: one, and some that are about to end
	syncStreams   = 4 // inbound push/pulls per peer
	allSyncs      = 64
)

// transport carries memberlist over the Net port. Writing never blocks and never dials inline, and
// never fails: memberlist would take an error for its own fault and stop suspecting the dead.
type transport struct {
	net      p2p.Net
	ip       net.IP
	admitted func(string) bool
	heard    func(peer string)      // an authenticated packet came from there
	refused  func(peer string)      // nobody listens there
	sent     func(packet []byte)    // looks at what memberlist tells others
	near     func(peer string) bool // memberlist may turn to that peer as it likes,
	allNear  func() bool            // and to any,
	instead  func() string          // or to this one
	tendFar  func(peer string) bool // looks after a peer that is too far away for memberlist's probes
	tend     func()                 // looks after the next one near, in place of whom memberlist probes
	got      func(packet []byte)    // looks at what others tell memberlist
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	intake   *intake // nil: memberlist sees all
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	senders map[string]*sender
	inbound map[string]int
	syncs   map[string]int
	syncing int
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(m *Membership) *transport {
	t := &transport{
		net: m.cfg.Net, ip: syntheticIP(m.self), admitted: m.cfg.Admitted, heard: m.Heard, refused: m.Probe, sent: m.overheard, near: m.near.has, allNear: m.near.all, instead: m.near.instead, tend: m.near.tend, tendFar: m.near.tendFar, got: m.pump.saw,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		senders: map[string]*sender{}, inbound: map[string]int{}, syncs: map[string]int{},
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// open begins to serve, once memberlist knows itself: before, it would answer a push/pull with
// nobody.
func (t *transport) open() {
	t.net.Handle(PacketProtocol, t.servePackets)
	t.net.Handle(SyncProtocol, t.serveStream)
}

// syntheticIP is a member's constant address, from its name. memberlist refuses a member whose
// address changes while it is alive.
func syntheticIP(peer string) net.IP {
	h := sha256.Sum256([]byte(peer))
	ip := make(net.IP, net.IPv6len)
	ip[0] = 0xfd
	copy(ip[1:], h[:])
	return ip
}

// Ports of members' synthetic addresses, which mean nothing to streams. memberlist turns to members
// at the first as it likes, and at the second as this package tells it to.
const (
	memberPort = 1
	wantedPort = 2
)

var wantedSuffix = fmt.Sprint(":", wantedPort)

// wanted tells whether it was this package that had memberlist turn to a member.
func wanted(a memberlist.Address) bool { return strings.HasSuffix(a.Addr, wantedSuffix) }

// wantedPing is another member's question for a ping, so that memberlist passes it on to whomever
// it is about; nil if it cannot be read.
func wantedPing(body []byte) []byte {
	var p indirectBody
	if decodeBody(body, &p) != nil {
		return nil
	}
	p.Port = wantedPort
	return encodeMessage(indirectMsg, p)
}

// joinString names a peer to memberlist.Join.
func joinString(peer string) string {
	return fmt.Sprintf("%s/[%s]:%d", peer, syntheticIP(peer), wantedPort)
}

type peerName string

func (peerName) Network() string  { return "covey" }
func (p peerName) String() string { return string(p) }

func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.ip, memberPort, nil
}

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo is never called by memberlist when names are required; a packet without a name goes
// nowhere.
func (t *transport) WriteTo([]byte, string) (time.Time, error) { return time.Now(), nil }

// errTended ends a probe of memberlist's in a large cluster, or of a peer far away. memberlist
// takes it for this peer's own fault and suspects no member.
var errTended = errors.New("membership: those near are looked after in turn")

// WriteToAddress queues a packet of memberlist's for a peer, or has somebody near take its news.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if !wanted(a) && probes(b) && t.near(a.Name) && t.tendFar(a.Name) {
		if news := withoutProbe(b); len(news) > 0 {
			t.write(pack(news), a.Name)
		}
		return time.Now(), errTended
	}
	if wanted(a) || t.allNear() || t.near(a.Name) && !probes(b) {
		t.write(b, a.Name)
		return time.Now(), nil
	}
	return time.Now(), t.passBy(b, a.Name)
}

// passBy sends a packet for a peer that memberlist is not to turn to. An answer goes there all the
// same; what else it carries is for anybody, but for a probe: the next one near is looked after.
func (t *transport) passBy(b []byte, peer string) error {
	answer, probe := false, false
	var news [][]byte
	_ = split(b, func(msg []byte) bool { // what memberlist wrote is whole
		answer = answer || msg[0] == ackMsg || msg[0] == nackMsg
		if msg[0] == pingMsg {
			probe = true
		} else {
			news = append(news, msg)
		}
		return true
	})
	switch {
	case answer:
		t.write(b, peer)
		return nil
	case len(news) > 0:
		t.write(pack(news), t.instead())
	}
	if probe {
		t.tend()
		return errTended
	}
	return nil
}

// withoutProbe is what else a packet with a ping carries.
func withoutProbe(packet []byte) (news [][]byte) {
	_ = split(packet, func(msg []byte) bool {
		if msg[0] != pingMsg {
			news = append(news, msg)
		}
		return true
	})
	return news
}

// probes tells whether a packet has a ping in it.
func probes(packet []byte) (yes bool) {
	_ = split(packet, func(msg []byte) bool {
		yes = msg[0] == pingMsg
		return !yes
	})
	return yes
}

// write queues a packet.
func (t *transport) write(b []byte, peer string) {
	t.sent(b)
	if t.intake != nil {
		b = t.intake.m.seal.outgoing(b)
	}
	if len(b) == 0 || !t.admitted(peer) { // others may name anybody
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || peer == "" || peer == t.net.Self() {
		return
	}
	s := t.senders[peer]
	if s == nil {
		s = &sender{t: t, peer: peer, queue: make(chan []byte, 64)}
		t.senders[peer] = s
		t.work.Go(s.run)
	}
	s.put(b)
}

// talksTo tells whether packets went to a peer lately.
func (t *transport) talksTo(peer string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.senders[peer] != nil
}

// met tells whether packets go to a peer and it was dialled before, with whatever outcome.
func (t *transport) met(peer string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.senders[peer]
	return s != nil && s.met.Load()
}

// DialTimeout is for unnamed nodes, of which there are none.
func (t *transport) DialTimeout(addr string, _ time.Duration) (net.Conn, error) {
	return nil, errors.New("membership: dial without a peer id: " + addr)
}

// DialAddressTimeout opens a stream for a push/pull or a stream ping.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	peer := a.Name
	if !wanted(a) && !t.near(peer) { // memberlist chose it at random: another does as well
		peer = t.instead()
	}
	ctx, cancel := context.WithTimeout(t.ctx, far.For(t.net, peer, timeout))
	defer cancel()
	c, err := t.net.Dial(ctx, peer, SyncProtocol)
	if err != nil {
		return nil, err
	}
	s, err := t.track(peer, c)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// track ties a stream to the transport's life.
func (t *transport) track(peer string, c net.Conn) (*syncConn, error) {
	if err := c.SetDeadline(time.Now().Add(far.For(t.net, peer, 10*time.Second))); err != nil {
		c.Close()
		return nil, err
	}
	stop := context.AfterFunc(t.ctx, func() { c.Close() })
	return &syncConn{Conn: c, t: t, peer: peer, stop: stop, done: make(chan struct{})}, nil
}

// serveStream hands an inbound stream to memberlist and stays until it is closed.
func (t *transport) serveStream(peer string, c net.Conn) {
	defer c.Close()
	if !t.enter(peer, false) {
		return
	}
	defer t.leave(peer, false)
	t.heard(peer)
	s, err := t.track(peer, c)
	if err != nil {
		return
	}
	defer s.Close()
	select {
	case t.streams <- s:
		<-s.done
	case <-t.ctx.Done():
	}
}

// servePackets reads one neighbour's packets until it is silent for long, or gone.
func (t *transport) servePackets(peer string, c net.Conn) {
	defer c.Close()
	if !t.enter(peer, true) {
		return
	}
	defer t.leave(peer, true)
	defer context.AfterFunc(t.ctx, func() { c.Close() })()
	r := bufio.NewReaderSize(c, 2<<10)
	for {
		if c.SetReadDeadline(time.Now().Add(2*senderIdle)) != nil {
			return
		}
		b, err := readPacket(r)
		if err != nil {
			return
		}
		if !t.admitted(peer) {
			reset(c) // so that the sender notices, and tries anew
			return
		}
		t.heard(peer)
		if t.intake != nil {
			if len(b) > maxPacket {
				t.intake.m.refusals.note(peer, notOurs, "a packet that is too long")
				b = nil
			}
			b = t.intake.packet(t.ctx, peer, b)
		}
		if len(b) == 0 {
			continue
		}
		t.got(b)
		if !t.pass(&memberlist.Packet{Buf: b, From: peerName(peer), Timestamp: time.Now()}) {
			return
		}
	}
}

// pass hands memberlist a packet; false when the transport is shut down.
func (t *transport) pass(p *memberlist.Packet) bool {
	select {
	case t.packets <- p:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// reset breaks a stream both ways, where the stream can.
func reset(c net.Conn) {
	if r, ok := c.(interface{ Reset() error }); ok {
		_ = r.Reset()
	}
}

// readPacket reads two bytes of length and so many bytes. memberlist keeps the slice, so each is
// its own.
func readPacket(r io.Reader) ([]byte, error) {
	var n [2]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint16(n[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

// enter admits an inbound stream and counts it; packets tells which kind.
func (t *transport) enter(peer string, packets bool) bool {
	if !t.admitted(peer) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed, packets && t.inbound[peer] >= packetStreams, !packets && (t.syncs[peer] >= syncStreams || t.syncing >= allSyncs):
		return false
	case packets:
		t.inbound[peer]++
	default:
		t.syncs[peer]++
		t.syncing++
	}
	t.work.Add(1)
	return true
}

func (t *transport) leave(peer string, packets bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := t.inbound
	if !packets {
		count = t.syncs
		t.syncing--
	}
	if count[peer]--; count[peer] <= 0 {
		delete(count, peer)
	}
	t.work.Done()
}

// flush waits until queued packets are on the wire, or given up; false if ctx ends first.
func (t *transport) flush(ctx context.Context) bool {
	for ctx.Err() == nil {
		t.mu.Lock()
		busy := false
		for _, s := range t.senders {
			busy = busy || s.left.Load() > 0
		}
		t.mu.Unlock()
		if !busy {
			return true
		}
		_ = pause.For(ctx, 5*time.Millisecond)
	}
	return false
}

// Shutdown ends every stream and waits for the transport's goroutines.
func (t *transport) Shutdown() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.net.Handle(PacketProtocol, nil)
	t.net.Handle(SyncProtocol, nil)
	t.cancel()
	t.work.Wait()
	return nil
}
