package p2p

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// What may be under way on the connLimits, before the gate can ask who it is and what it wants.
const (
	handshakesEach   = 64  // of one address at once, over TCP; QUIC has as many places of its own
	handshakesAll    = 512 // of all addresses, the same
	handshakeGrace   = 500 * time.Millisecond
	handshakeTime    = 15 * time.Second       // a handshake over TCP; QUIC's own takes five seconds
	handshakeForgot  = 15 * time.Second       // later no handshake counts, whatever became of it
	handshakesProven = 16                     // QUIC handshakes of all addresses from which on an address must prove that it is no forgery
	strangersPerID   = 2                      // inbound connections of one stranger
	strangerOpen     = 8                      // streams of one stranger at once, whatever they are for
	strangerUnnamed  = 4                      // of those, without a protocol: four times strangerConns of all
	strangerBudget   = 256                    // streams on one connection of a stranger, one after the other
	tarpit           = 100 * time.Millisecond // a stranger that asked for more waits before it may ask again
	memberTarpit     = 10 * time.Millisecond  // the same for a member
	memberUnnamed    = 128                    // streams without a protocol of one member
	prefixIPv4       = 32
	prefixIPv6       = 56
)

// errDoorstep is what libp2p hears when there is no place; the other side sees a closed connection
// or a reset stream.
var errDoorstep = errors.New("too many like that at once")

// connLimits is the resource manager in front of libp2p's. It bounds what comes in before the gate
// can look at it: handshakes of nobody knows whom, for each address, connections of strangers, and
// streams that name no protocol. Nothing of it is shared between strangers and members. Where
// places are taken, the one that stood longest on one without getting anywhere loses it, of the
// address with the most: silence must not keep others out. Who lost a place tries again.
type connLimits struct {
	network.ResourceManager
	admitted func(string) bool
	took     func(peer.ID, time.Duration) // hears how long the handshake of an admitted peer took; may be nil

	mu        sync.Mutex
	shaking   []*inbound // handshakes under way, oldest first
	strangers []*inbound // authenticated and not admitted, oldest first
	streams   map[peer.ID]*streamCount
}

// streamCount is what one peer has open to us; forgotten when it is zero.
type streamCount struct{ all, unnamed int }

func newDoorstep(inner network.ResourceManager, admitted func(string) bool) *connLimits {
	return &connLimits{ResourceManager: inner, admitted: admitted, streams: map[peer.ID]*streamCount{}}
}

// inbound is an inbound connection on its way to being a member's. The connLimits's lock guards its
// fields.
type inbound struct {
	network.ConnManagementScope
	d     *connLimits
	from  netip.Prefix // zero if it has no address: it came through a relay
	quic  bool
	since time.Time // it began, or was authenticated

	peer   peer.ID
	opened int    // streams so far, as a stranger
	end    func() // closes it; nil until there is something to close
	ended  bool   // it lost its place
}

func (d *connLimits) OpenConnection(dir network.Direction, usefd bool, at ma.Multiaddr) (network.ConnManagementScope, error) {
	if dir == network.DirOutbound {
		return d.ResourceManager.OpenConnection(dir, usefd, at)
	}
	c := &inbound{d: d, from: prefixOf(at), quic: at != nil && isQUIC(at), since: time.Now()}
	if !d.arrive(c) {
		return nil, errDoorstep
	}
	scope, err := d.ResourceManager.OpenConnection(dir, usefd, at)
	if err != nil {
		d.forget(c)
		return nil, err
	}
	c.ConnManagementScope = scope
	return c, nil
}

// VerifySourceAddress has QUIC prove addresses while many handshakes are under way: forged ones
// would take the places of others.
func (d *connLimits) VerifySourceAddress(a net.Addr) bool {
	d.mu.Lock()
	n := 0
	for _, c := range d.shaking {
		if c.quic {
			n++
		}
	}
	d.mu.Unlock()
	return n >= handshakesProven || d.ResourceManager.VerifySourceAddress(a)
}

// arrive takes a place for a handshake. Over TCP the oldest one makes room, once it had its time;
// QUIC's cannot be ended from here, and end by themselves.
func (d *connLimits) arrive(c *inbound) bool {
	var out *inbound
	defer func() { out.close() }()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shaking = slices.DeleteFunc(d.shaking, func(o *inbound) bool { return c.since.Sub(o.since) > handshakeForgot })
	same := slices.DeleteFunc(slices.Clone(d.shaking), func(o *inbound) bool { return o.quic != c.quic })
	if each, prefix := busiest(same, c.from); each >= handshakesEach || len(same) >= handshakesAll {
		if len(same) < handshakesAll {
			prefix = c.from
		}
		out = oldest(same, prefix)
		if out.end == nil || c.since.Sub(out.since) < handshakeGrace {
			out = nil
			return false
		}
		d.drop(out)
	}
	d.shaking = append(d.shaking, c)
	return true
}

// busiest counts the connections of an address, and names the one with the most.
func busiest(list []*inbound, of netip.Prefix) (n int, most netip.Prefix) {
	count := map[netip.Prefix]int{}
	for _, c := range list {
		if count[c.from]++; count[c.from] > count[most] {
			most = c.from
		}
	}
	return count[of], most
}

// oldest of an address; the list is in that order and has one.
func oldest(list []*inbound, of netip.Prefix) *inbound {
	return list[slices.IndexFunc(list, func(c *inbound) bool { return c.from == of })]
}

// drop takes a connection's place away. The lock is held; who calls closes it afterwards.
func (d *connLimits) drop(c *inbound) {
	c.ended = true
	d.remove(c)
}

func (d *connLimits) remove(c *inbound) {
	is := func(o *inbound) bool { return o == c }
	d.shaking = slices.DeleteFunc(d.shaking, is)
	d.strangers = slices.DeleteFunc(d.strangers, is)
}

func (d *connLimits) forget(c *inbound) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(c)
}

// close ends a connection that lost its place; of none, nothing.
func (c *inbound) close() {
	if c == nil {
		return
	}
	c.d.mu.Lock()
	end := c.end
	c.d.mu.Unlock()
	if end != nil {
		go end() // it waits for the other side's window, and returns when the connection is closed
	}
}

// closeWith says how the connection is closed, from here on.
func (c *inbound) closeWith(end func()) {
	c.d.mu.Lock()
	c.end = end
	ended := c.ended
	c.d.mu.Unlock()
	if ended {
		c.close()
	}
}

// SetPeer implements network.ConnManagementScope: the handshake is over.
func (c *inbound) SetPeer(p peer.ID) error {
	if err := c.ConnManagementScope.SetPeer(p); err != nil {
		return err
	}
	stranger := !c.d.admitted(p.String())
	if !stranger && c.d.took != nil {
		c.d.took(p, time.Since(c.since))
	}
	out, ok := c.d.authenticated(c, p, stranger)
	out.close()
	if !ok {
		return errDoorstep
	}
	return nil
}

// authenticated frees the handshake's place, and takes a stranger's if it is one.
func (d *connLimits) authenticated(c *inbound, p peer.ID, stranger bool) (out *inbound, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(c)
	if c.peer, c.since = p, time.Now(); !stranger {
		return nil, true
	}
	own := 0
	for _, o := range d.strangers {
		if o.peer == p {
			own++
		}
	}
	if own >= strangersPerID {
		return nil, false
	}
	if len(d.strangers) >= strangerConns {
		if out = d.idlest(); out != nil {
			d.drop(out)
		}
	}
	d.strangers = append(d.strangers, c)
	return out, true
}

// idlest is the stranger that is to go: of the address with the most, the oldest of those that say
// nothing, or of all. Who has been admitted meanwhile is none. nil if nobody has to go after all.
func (d *connLimits) idlest() *inbound {
	d.strangers = slices.DeleteFunc(d.strangers, func(c *inbound) bool { return d.admitted(c.peer.String()) })
	if len(d.strangers) < strangerConns {
		return nil
	}
	_, most := busiest(d.strangers, netip.Prefix{})
	for _, c := range d.strangers {
		if n := d.streams[c.peer]; c.from == most && (n == nil || n.all == n.unnamed) {
			return c
		}
	}
	return oldest(d.strangers, most)
}

func (c *inbound) Done() {
	c.d.forget(c)
	c.ConnManagementScope.Done()
}

func (d *connLimits) OpenStream(p peer.ID, dir network.Direction) (network.StreamManagementScope, error) {
	if dir == network.DirOutbound {
		return d.ResourceManager.OpenStream(p, dir)
	}
	s := &unnamedStream{d: d, peer: p}
	if !d.begin(s) {
		wait := memberTarpit
		if s.stranger {
			wait = tarpit
		}
		time.Sleep(wait) // this is the goroutine that takes up what comes on that connection, and nothing else
		return nil, errDoorstep
	}
	scope, err := d.ResourceManager.OpenStream(p, dir)
	if err != nil {
		d.over(s)
		return nil, err
	}
	s.StreamManagementScope = scope
	return s, nil
}

// unnamedStream is an inbound stream, until it ends; named tells that it has said what for. The
// connLimits's lock guards it.
type unnamedStream struct {
	network.StreamManagementScope
	d        *connLimits
	peer     peer.ID
	stranger bool
	named    bool
	done     bool
}

// begin takes a place for a stream. A stranger that opens one after the other gets no more: to be
// cut off would only bring it back with another handshake.
func (d *connLimits) begin(s *unnamedStream) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.streams[s.peer]
	if n == nil {
		n = &streamCount{}
	}
	switch c := d.strangerOf(s.peer); {
	case c == nil:
		if n.unnamed >= memberUnnamed {
			return false
		}
	default:
		s.stranger = true
		if c.opened++; c.opened > strangerBudget || n.all >= strangerOpen || n.unnamed >= strangerUnnamed {
			return false
		}
	}
	n.all++
	n.unnamed++
	d.streams[s.peer] = n
	return true
}

// strangerOf is the connection of a peer that is not admitted, nil of one that is.
func (d *connLimits) strangerOf(p peer.ID) *inbound {
	i := slices.IndexFunc(d.strangers, func(c *inbound) bool { return c.peer == p })
	if i < 0 {
		return nil
	}
	c := d.strangers[i]
	if d.admitted(p.String()) {
		d.strangers = slices.DeleteFunc(d.strangers, func(o *inbound) bool { return o.peer == p })
		return nil
	}
	return c
}

// SetProtocol implements network.StreamManagementScope: from here on the gate knows it.
func (s *unnamedStream) SetProtocol(p protocol.ID) error {
	if err := s.StreamManagementScope.SetProtocol(p); err != nil {
		return err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.name(s)
	return nil
}

func (s *unnamedStream) Done() {
	s.d.over(s)
	s.StreamManagementScope.Done()
}

// name frees the place of a stream without a protocol. The lock is held.
func (d *connLimits) name(s *unnamedStream) {
	if s.named || s.done {
		return
	}
	s.named = true
	d.streams[s.peer].unnamed--
}

func (d *connLimits) over(s *unnamedStream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.done {
		return
	}
	d.name(s)
	s.done = true
	if n := d.streams[s.peer]; n.all <= 1 {
		delete(d.streams, s.peer)
	} else {
		n.all--
	}
}

// prefixOf is the network an address stands for: a host that has one IPv6 address has billions.
func prefixOf(at ma.Multiaddr) netip.Prefix {
	if at == nil || isRelay(at) {
		return netip.Prefix{}
	}
	ip, err := manet.ToIP(at)
	if err != nil {
		return netip.Prefix{}
	}
	a, _ := netip.AddrFromSlice(ip)
	bits := prefixIPv4
	if a = a.Unmap(); a.Is6() {
		bits = prefixIPv6
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
