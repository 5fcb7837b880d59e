package p2p

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/coveyproject/covey/p2p/wire"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/quic-go/quic-go"
)

// reachProtocol asks an admitted peer to dial us back, so that we learn whether others can. It
// dials only the address the question came from, so that nobody can be made to knock on foreign
// listeners.
const reachProtocol = "/covey/reach/1"

const (
	reachPorts = 4    // ports to try, at most
	reachFrame = 1024 // bytes of question and answer
	reachAsks  = 8    // peers whose answer is kept fresh
)

type reachQuestion struct {
	Ports []uint16 `cbor:"1,keyasint"` // TCP
}

type reachAnswer struct {
	Known   bool   `cbor:"1,keyasint,omitempty"` // it could be tried
	Reached bool   `cbor:"2,keyasint,omitempty"`
	Mirror  []byte `cbor:"3,keyasint,omitempty"` // key to ask for one's own UDP address with
}

// askReach asks a few directly connected peers that have not been asked lately, and forgets those
// that are gone.
func (r *relays) askReach() {
	r.mu.Lock()
	var ask []peer.ID
	for p := range r.asked {
		if r.directTo(p) == nil {
			delete(r.asked, p)
		}
	}
	fresh := 0
	for _, a := range r.asked {
		if time.Since(a.at) < r.cfg.RelayCheck {
			fresh++
		}
	}
	for _, p := range r.sw.Peers() {
		if a, ok := r.asked[p]; ok && time.Since(a.at) < r.cfg.RelayCheck {
			continue
		}
		if fresh+len(ask) < reachAsks && r.gated.gate.admits(p) && r.directTo(p) != nil {
			ask = append(ask, p)
		}
	}
	r.mu.Unlock()
	for _, p := range ask {
		a, err := r.reach(r.life.ctx, p)
		if err != nil {
			r.log.Debug("asking to be dialled back", "peer", p, "err", err)
		}
		r.note(p, a)
	}
}

// note keeps an answer. Only a failed attempt is evidence that we cannot be reached.
func (r *relays) note(p peer.ID, a reachAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[p] = answer{reached: a.Reached || !a.Known, mirror: a.Mirror, at: time.Now()}
}

// Reach asks a peer that is connected directly to dial this one by TCP, at the address it sees it
// at. known is false where that could not be tried.
func (h *Host) Reach(ctx context.Context, peerID string) (known, reached bool) {
	p, err := peer.Decode(peerID)
	if err != nil || h.relays.directTo(p) == nil {
		return false, false
	}
	a, err := h.relays.reach(ctx, p)
	if err == nil { // its mirror is asked next, if somebody wants to know of the NAT
		h.relays.note(p, a)
	}
	return err == nil && a.Known, a.Reached
}

// DialUDP dials a peer that is connected directly, at the address it is seen at and ports that it
// named. It does so from a socket of its own, which no firewall has let through before, and goes as
// far as the certificate that says who answers. known is false where it could not be tried.
func (h *Host) DialUDP(ctx context.Context, peerID string, ports []uint16) (known, reached bool) {
	p, err := peer.Decode(peerID)
	if err != nil || h.quic == nil || len(ports) == 0 || len(ports) > reachPorts {
		return false, false
	}
	to := h.relays.directTo(p)
	if to == nil {
		return false, false
	}
	ip, err := manet.ToIP(to.RemoteMultiaddr())
	if err != nil {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found := make(chan bool, len(ports))
	for _, port := range ports {
		go func() { found <- h.answersUDP(ctx, p, net.UDPAddr{IP: ip, Port: int(port)}) }()
	}
	for range ports {
		reached = <-found || reached
	}
	return true, reached
}

// answersUDP tells whether a peer answers at an address. The handshake is ended before there is a
// connection.
func (h *Host) answersUDP(ctx context.Context, p peer.ID, at net.UDPAddr) (here bool) {
	own, err := libp2ptls.NewIdentity(h.cfg.Key)
	if err != nil {
		return false
	}
	conf, _ := own.ConfigForPeer(p)
	verify, enough := conf.VerifyPeerCertificate, errors.New("that is all we want to know")
	conf.VerifyPeerCertificate = func(certs [][]byte, chains [][]*x509.Certificate) error {
		if err := verify(certs, chains); err != nil {
			return err
		}
		here = true
		return enough
	}
	if c, err := quic.DialAddr(ctx, at.String(), conf, &quic.Config{HandshakeIdleTimeout: dialTimeout}); err == nil {
		_ = c.CloseWithError(0, "")
	}
	return here
}

// PortsUDP are those at which others may find this peer by UDP.
func (h *Host) PortsUDP() (out []uint16) {
	if h.quic == nil {
		return nil
	}
	return h.portsOf(ma.P_UDP)
}

// Places is at how many relays others find this peer.
func (h *Host) Places() int {
	h.relays.mu.Lock()
	defer h.relays.mu.Unlock()
	return len(h.relays.places)
}

func (r *relays) reach(ctx context.Context, p peer.ID) (a reachAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	s, err := r.bh.NewStream(network.WithNoDial(ctx, "reach"), p, reachProtocol)
	if err != nil {
		return a, err
	}
	c := newConn(s, false)
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * dialTimeout))
	if err := wire.NewWriter(c, reachFrame).Send(reachQuestion{Ports: r.ports()}); err != nil {
		return a, err
	}
	err = wire.NewReader(c, reachFrame).Read(&a)
	return a, err
}

// ports are those others may find us at: the own ones, then announced ones.
func (h *Host) ports() []uint16 { return h.portsOf(ma.P_TCP) }

func (h *Host) portsOf(protocol int) (out []uint16) {
	for _, a := range append(h.sw.ListenAddresses(), h.announce...) {
		v, err := a.ValueForProtocol(protocol)
		if err != nil || isRelay(a) {
			continue
		}
		var n uint16
		if _, err := fmt.Sscanf(v, "%d", &n); err == nil && len(out) < reachPorts && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func (r *relays) serveReach(s network.Stream, _ bool) {
	c := newConn(s, false)
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * dialTimeout))
	var q reachQuestion
	if err := wire.NewReader(c, reachFrame).Read(&q); err != nil {
		if err != io.EOF {
			s.Reset()
		}
		return
	}
	a := r.dialBack(s.Conn(), q)
	if len(r.mirror.conns) > 0 {
		a.Mirror = r.mirror.key[:]
	}
	wire.NewWriter(c, reachFrame).Send(a)
}

// dialBack goes as far as the handshake that proves who answers.
func (r *relays) dialBack(from network.Conn, q reachQuestion) (a reachAnswer) {
	ip, err := manet.ToIP(from.RemoteMultiaddr())
	if err != nil || isRelay(from.RemoteMultiaddr()) || len(q.Ports) == 0 || len(q.Ports) > reachPorts {
		return a
	}
	a.Known = true
	ctx, cancel := context.WithTimeout(r.life.ctx, dialTimeout)
	defer cancel()
	found := make(chan bool, len(q.Ports))
	for _, port := range q.Ports {
		go func() {
			m, err := manet.FromIP(ip)
			if err == nil {
				m, err = ma.NewMultiaddr(fmt.Sprintf("%s/tcp/%d", m, port))
			}
			var id string
			if err == nil {
				id, err = r.who(ctx, m)
			}
			found <- err == nil && id == from.RemotePeer().String()
		}()
	}
	for range q.Ports {
		a.Reached = <-found || a.Reached
	}
	return a
}
