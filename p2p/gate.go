package p2p

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// gate decides which connections stand. It is libp2p's ConnectionGater, asked on every transport,
// relayed connections included; which protocols may be opened on them is decided for every stream
// (guard).
type gate struct {
	admitted  func(peer string) bool // Config.Admitted
	strangers []string               // protocols that everybody may open
	log       *slog.Logger

	mu      sync.Mutex
	blocked map[peer.ID]bool
	streams map[peer.ID]int // of strangers; how many strangers there are is the connLimits's business
	open    map[opened]int  // streams that admitted peers have open to our handlers
}

type opened struct {
	peer     peer.ID
	protocol string
}

func newGate(cfg Config) *gate {
	return &gate{admitted: cfg.Admitted, strangers: append([]string{HelloProtocol}, cfg.Strangers...), log: cfg.Log, blocked: map[peer.ID]bool{}, streams: map[peer.ID]int{}, open: map[opened]int{}}
}

func (g *gate) admits(p peer.ID) bool { return g.admitted(p.String()) }

func (g *gate) isBlocked(p peer.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blocked[p]
}

// InterceptPeerDial refuses to dial blocked peers.
func (g *gate) InterceptPeerDial(p peer.ID) bool { return !g.isBlocked(p) }

// InterceptAddrDial allows every address of a peer that may be dialled.
func (g *gate) InterceptAddrDial(peer.ID, ma.Multiaddr) bool { return true }

// InterceptAccept allows everybody to begin a handshake; the connLimits bounds how many.
func (g *gate) InterceptAccept(network.ConnMultiaddrs) bool { return true }

// InterceptSecured knows who it is, and refuses blocked peers. Strangers are the connLimits's
// business.
func (g *gate) InterceptSecured(_ network.Direction, p peer.ID, _ network.ConnMultiaddrs) bool {
	return !g.isBlocked(p)
}

// InterceptUpgraded has nothing to add.
func (g *gate) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }

// enter takes a stranger's place for one stream, if there is one.
func (g *gate) enter(p peer.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams[p] >= strangerStreams {
		return false
	}
	g.streams[p]++
	return true
}

func (g *gate) leave(p peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams[p]--; g.streams[p] == 0 {
		delete(g.streams, p)
	}
}

// enterAdmitted takes an admitted peer's place for one stream of a protocol, if there is one: a
// peer in bad hands must not fill the memory with streams on which it says nothing.
func (g *gate) enterAdmitted(o opened) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[o] >= admittedStreams {
		return false
	}
	g.open[o]++
	return true
}

func (g *gate) leaveAdmitted(o opened) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[o]--; g.open[o] == 0 {
		delete(g.open, o)
	}
}

// guard stands in front of every handler, on every stream: admitted peers pass, strangers only to
// their protocols, few at a time, for a short time and with little to say.
func (g *gate) guard(protocol string, next func(s network.Stream, stranger bool)) network.StreamHandler {
	return func(s network.Stream) {
		p := s.Conn().RemotePeer()
		if g.admits(p) {
			next(s, false)
			return
		}
		if !slices.Contains(g.strangers, protocol) {
			g.log.Debug("a peer that is not admitted was refused", "peer", p, "protocol", protocol)
			s.ResetWithError(network.StreamGated)
			return
		}
		if !g.enter(p) {
			s.ResetWithError(network.StreamRateLimited)
			return
		}
		defer g.leave(p)
		s.SetDeadline(time.Now().Add(strangerTime))
		next(s, true)
	}
}

// gated maps the stream errors of the other side's gate to ours.
func gated(err error) error {
	if se, ok := errors.AsType[*network.StreamError](err); ok && se.Remote {
		switch se.ErrorCode {
		case network.StreamGated:
			return ErrNotAdmitted
		case network.StreamRateLimited:
			return ErrBusy
		case network.StreamResourceLimitExceeded:
			return ErrTooMany
		}
	}
	return err
}

// Block cuts these peers off, both ways, existing connections too, and lets everybody else in
// again; nil heals. It is the testnet's partition.
func (h *Host) Block(peers []string) {
	next := map[peer.ID]bool{}
	for _, s := range peers {
		if p, err := peer.Decode(s); err == nil {
			next[p] = true
		}
	}
	h.gate.mu.Lock()
	h.gate.blocked = next
	h.gate.mu.Unlock()
	for p := range next {
		h.sw.ClosePeer(p)
	}
	for _, c := range h.sw.Conns() { // one that was let in while we changed our mind
		if next[c.RemotePeer()] {
			c.Close()
		}
	}
}

// Slow has all of this host's connections together carry so many bytes per second in each
// direction; 0 ends it. It is the testnet's slow line, and does nothing without Config.Slowable.
func (h *Host) Slow(rate int64) {
	if h.line != nil {
		h.line.Set(rate)
	}
}
