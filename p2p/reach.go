package p2p

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"covey/p2p/wire"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// reachProtocol asks an admitted peer to dial us back, so that we learn whether others can. It
// dials only the address the question came from, so that nobody can be made to knock on foreign
// doors.
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
		r.mu.Lock()
		// Only a failed attempt is evidence that we cannot be reached.
		r.asked[p] = answer{reached: a.Reached || !a.Known, mirror: a.Mirror, at: time.Now()}
		r.mu.Unlock()
	}
}

// Reach asks a peer that is connected directly to dial this one by TCP, at the address it sees it
// at. known is false where that could not be tried.
func (h *Host) Reach(ctx context.Context, peerID string) (known, reached bool) {
	p, err := peer.Decode(peerID)
	if err != nil || h.relays.directTo(p) == nil {
		return false, false
	}
	a, err := h.relays.reach(ctx, p)
	return err == nil && a.Known, a.Reached
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
func (h *Host) ports() (out []uint16) {
	for _, a := range append(h.sw.ListenAddresses(), h.announce...) {
		v, err := a.ValueForProtocol(ma.P_TCP)
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
