package p2p

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/coveyproject/covey/internal/pause"
)

// Two peers behind NATs that talk through a relay try for a direct QUIC connection, both sending at
// the same moment. Each must know its own UDP address as the world sees it; our connections to
// relays are TCP, which says nothing about UDP. So a peer sends its relay a datagram from its QUIC
// socket, and the relay answers with the address it came from: a mirror. Only those who got the
// relay's key on an authenticated stream are answered, with fewer bytes than they sent.

const (
	mirrorWait  = 20 * time.Millisecond
	mirrorEvery = 20 * time.Second // keeps the NAT's mapping alive, too
	mirrorAge   = 3 * mirrorEvery
	mirrorKey   = 16
	mirrorNonce = 16
	mirrorSize  = 64 // bytes of a question; the answer is shorter
	mirrorsTold = 32 // answers that are told apart, at most
)

// The first byte of a datagram that is not QUIC is below 0x40.
const (
	mirrorAsk    = "\x01covey?"
	mirrorAnswer = "\x02covey!"
)

// mirror serves and asks on the QUIC sockets.
type mirror struct {
	key   [mirrorKey]byte
	nonce [mirrorNonce]byte
	conns []net.PacketConn

	mu       sync.Mutex
	seen     netip.AddrPort                    // our address as last told
	told     map[netip.AddrPort]netip.AddrPort // the same by who told, since Outside asked
	at       time.Time
	punching bool

	punched, missed int // tries to get through NATs
}

// Trace implements holepunch.EventTracer.
func (m *mirror) Trace(e *holepunch.Event) {
	end, ok := e.Evt.(*holepunch.EndHolePunchEvt)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if end.Success {
		m.punched++
	} else {
		m.missed++
	}
}

// Punched is how often a direct connection through NATs was tried since the start.
func (h *Host) Punched() (well, not int) {
	m := &h.relays.mirror
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.punched, m.missed
}

// draw makes the secrets of this run.
func (m *mirror) draw() {
	rand.Read(m.key[:])
	rand.Read(m.nonce[:])
}

// startMirror listens for datagrams that are not QUIC.
func (r *relays) startMirror() {
	m := &r.mirror
	m.draw()
	for _, a := range r.sw.ListenAddresses() {
		if !isQUIC(a) {
			continue
		}
		u, err := manet.ToNetAddr(a[:min(2, len(a))])
		if err != nil {
			continue
		}
		c, err := r.quic.SharedNonQUICPacketConn(u.Network(), u.(*net.UDPAddr))
		if err != nil {
			r.log.Debug("no mirror on a socket", "addr", a, "err", err)
			continue
		}
		m.conns = append(m.conns, c)
		r.undo = append(r.undo, c)
		r.life.spawn(func() {
			if err := m.serve(c, r.startPunching); r.life.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				r.log.Debug("mirror", "err", err)
			}
		})
	}
}

// serve answers and hears answers on a socket, until that fails; told runs after each answer.
func (m *mirror) serve(c net.PacketConn, told func()) error {
	buf := make([]byte, 2*mirrorSize)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		u, ok := from.(*net.UDPAddr)
		if !ok {
			continue
		}
		if out := m.reflect(buf[:n], u.AddrPort()); out != nil {
			c.WriteTo(out, from)
		} else if seen, ok := m.read(buf[:n]); ok {
			m.mu.Lock()
			m.seen, m.at = seen, time.Now()
			if m.told != nil && len(m.told) < mirrorsTold { // nobody asked otherwise
				m.told[u.AddrPort()] = seen
			}
			m.mu.Unlock()
			told()
		}
	}
}

// question is a datagram to the mirror with that key.
func (m *mirror) question(key []byte) []byte {
	b := append(append([]byte(mirrorAsk), key...), m.nonce[:]...)
	return append(b, make([]byte, max(0, mirrorSize-len(b)))...)
}

// reflect answers a question, or returns nil.
func (m *mirror) reflect(b []byte, from netip.AddrPort) []byte {
	rest, ok := bytes.CutPrefix(b, []byte(mirrorAsk))
	if !ok || len(b) != mirrorSize || subtle.ConstantTimeCompare(rest[:mirrorKey], m.key[:]) != 1 {
		return nil
	}
	out := append([]byte(mirrorAnswer), rest[mirrorKey:mirrorKey+mirrorNonce]...)
	ip := from.Addr().Unmap().As16()
	return binary.BigEndian.AppendUint16(append(out, ip[:]...), from.Port())
}

// read takes an answer to our question.
func (m *mirror) read(b []byte) (seen netip.AddrPort, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte(mirrorAnswer))
	if !ok || len(rest) != mirrorNonce+16+2 || subtle.ConstantTimeCompare(rest[:mirrorNonce], m.nonce[:]) != 1 {
		return seen, false
	}
	ip := netip.AddrFrom16([16]byte(rest[mirrorNonce : mirrorNonce+16])).Unmap()
	port := binary.BigEndian.Uint16(rest[mirrorNonce+16:])
	return netip.AddrPortFrom(ip, port), ip.IsValid() && !ip.IsUnspecified() && !ip.IsLoopback() && port > 0
}

// look asks the mirrors of our relays.
func (r *relays) look() {
	r.mu.Lock()
	ask := map[peer.ID][]byte{}
	for p := range r.places {
		if a, ok := r.asked[p]; ok && len(a.mirror) == mirrorKey {
			ask[p] = a.mirror
		}
	}
	r.mu.Unlock()
	r.askMirrors(ask)
}

// Outside asks other peers' mirrors where our datagrams come from, and gives what has come back
// when ctx ends: one address of each.
func (h *Host) Outside(ctx context.Context) (seen []netip.AddrPort) {
	r, m := h.relays, &h.relays.mirror
	r.mu.Lock()
	ask := map[peer.ID][]byte{}
	for p, a := range r.asked {
		if len(a.mirror) == mirrorKey {
			ask[p] = a.mirror
		}
	}
	r.mu.Unlock()
	if len(ask) == 0 {
		return nil
	}
	m.mu.Lock()
	m.told = map[netip.AddrPort]netip.AddrPort{}
	m.mu.Unlock()
	r.askMirrors(ask)
	for len(seen) < len(ask) && pause.For(ctx, mirrorWait) == nil {
		seen = m.all()
	}
	return m.all()
}

// all are our addresses as they were told since they were asked for.
func (m *mirror) all() []netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.told))
}

// askMirrors sends a question to each mirror whose key we have and to which there is a direct
// connection.
func (r *relays) askMirrors(ask map[peer.ID][]byte) {
	m := &r.mirror
	for p, key := range ask {
		c := r.directTo(p)
		if c == nil {
			continue
		}
		to, ok := r.mirrorOf(c)
		if !ok {
			continue
		}
		for _, s := range m.conns {
			if own, ok := s.LocalAddr().(*net.UDPAddr); ok && (own.IP.To4() != nil) == to.Addr().Unmap().Is4() {
				s.WriteTo(m.question(key), net.UDPAddrFromAddrPort(to))
				break
			}
		}
	}
}

// mirrorOf is where the mirror of a peer is: at the address that was dialled, which has one port
// for TCP and UDP, or, of a peer that dialled us, at the UDP address it tells of that machine.
func (r *relays) mirrorOf(c network.Conn) (netip.AddrPort, bool) {
	first := func(a ma.Multiaddr) (netip.AddrPort, bool) {
		at, err := addrPort(a[:min(2, len(a))])
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), err == nil
	}
	seen, ok := first(c.RemoteMultiaddr())
	if !ok || c.Stat().Direction == network.DirOutbound || isQUIC(c.RemoteMultiaddr()) {
		return seen, ok
	}
	for _, a := range r.sw.Peerstore().Addrs(c.RemotePeer()) {
		if to, ok := first(a); ok && isQUIC(a) && !isRelay(a) && to.Addr() == seen.Addr() {
			return to, true
		}
	}
	return seen, false
}

// outside is our UDP address as relays see it, if we know.
func (m *mirror) outside() []ma.Multiaddr {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > mirrorAge {
		return nil
	}
	a, err := manet.FromNetAddr(net.UDPAddrFromAddrPort(m.seen))
	if err != nil {
		return nil
	}
	return []ma.Multiaddr{a.Encapsulate(ma.StringCast("/quic-v1"))}
}

// startPunching serves hole punching from the moment we know where we are.
func (r *relays) startPunching() {
	m := &r.mirror
	m.mu.Lock()
	first := !m.punching
	m.punching = true
	m.mu.Unlock()
	if !first {
		return
	}
	s, err := holepunch.NewService(r.gated, r.gated.ids, r.mirror.outside, holepunch.DirectDialTimeout(dialTimeout), holepunch.WithTracer(m))
	if err != nil {
		r.log.Warn("no direct connections between peers behind NATs", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.ctx.Err() != nil { // closed meanwhile
		s.Close()
		return
	}
	r.undo = append(r.undo, s)
}
