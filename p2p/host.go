package p2p

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	bhost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/coveyproject/covey/internal/strain"
	"github.com/coveyproject/covey/p2p/line"
)

// Host is one peer on real networks. It is safe for concurrent use and implements Net.
type Host struct {
	cfg      Config
	log      *slog.Logger
	id       peer.ID
	announce []ma.Multiaddr

	gate      *gate
	line      *line.Line // nil: it cannot be slowed
	refusals  refusals
	greetings greetings
	searches  searches
	distances distances
	limits    *connLimits
	sw        *swarm.Swarm
	bus       event.Bus
	bh        *bhost.BasicHost
	quic      *quicreuse.ConnManager

	life  *life
	close sync.Once
	undo  []io.Closer // in order of making

	doors   *listeners
	peers   *peers
	silence *silence
	topics  *topics
	relays  *relays
	lan     lan
}

var _ Net = (*Host)(nil)

// New starts a host: it listens, serves the hello protocol, and looks around if Config says so.
// Close ends it.
func New(cfg Config) (*Host, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	id, err := peer.IDFromPrivateKey(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("p2p: %w", err)
	}
	h := &Host{cfg: cfg, log: cfg.Log, id: id, gate: newGate(cfg), life: newLife()}
	for _, s := range cfg.Announce {
		_, a, err := ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("announce: %w", err)
		}
		h.announce = append(h.announce, parseAddrs([]string{a})...)
	}
	if cfg.Slowable && cfg.Sockets == nil {
		h.line = &line.Line{}
	}
	h.refusals.init()
	h.searches.init()
	h.greetings.distances, h.refusals.distances = &h.distances, &h.distances
	if err := h.build(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Host) build() (err error) {
	limits, err := newLimits(h.cfg.Peers)
	if err != nil {
		return fmt.Errorf("p2p: limits: %w", err)
	}
	h.limits = newDoorstep(limits, h.cfg.Admitted)
	h.limits.took = func(p peer.ID, d time.Duration) { h.distances.note(p, d/2) } // a handshake that comes in is two round trips, over TCP
	h.undo = append(h.undo, h.limits)
	if err := h.network(); err != nil {
		return err
	}
	if h.topics, err = newTopics(h.life, h.gated(), h.bus, h.log); err != nil {
		return err
	}
	h.undo = append(h.undo, h.topics.poke)
	if err := h.doors.open(h.cfg); err != nil {
		return err
	}
	h.sw.Notify(&network.NotifyBundle{ConnectedF: h.connected, DisconnectedF: h.disconnected})
	h.bh.SetStreamHandler(HelloProtocol, h.gate.guard(HelloProtocol, h.serveHello))
	h.bh.Start()
	h.life.spawn(h.watch)
	if err := h.relays.start(); err != nil {
		return err
	}
	return h.startMDNS()
}

// network assembles swarm, transports and host.
func (h *Host) network() error {
	store, err := pstoremem.NewPeerstore()
	if err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	if err := store.AddPrivKey(h.id, h.cfg.Key); err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	if err := store.AddPubKey(h.id, h.cfg.Key.GetPublic()); err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	h.bus = eventbus.NewBus()
	h.sw, err = swarm.NewSwarm(h.id, store, h.bus,
		swarm.WithConnectionGater(h.gate), swarm.WithResourceManager(h.limits), swarm.WithDialRanker(rankDials),
		swarm.WithDialTimeout(strain.Most*searchTime), swarm.WithDialTimeoutLocal(strain.Most*searchTime), // ours are shorter
		swarm.WithUDPBlackHoleSuccessCounter(nil), swarm.WithIPv6BlackHoleSuccessCounter(nil))
	if err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	upgrade, err := h.transports()
	if err != nil {
		h.sw.Close()
		return fmt.Errorf("p2p: %w", err)
	}
	if h.quic != nil {
		h.undo = append(h.undo, h.quic)
	}
	h.bh, err = bhost.NewHost(h.sw, &bhost.HostOpts{
		EventBus: h.bus, UserAgent: "covey", DisableSignedPeerRecord: true, AddrsFactory: untold,
		NegotiationTimeout: strain.Most * dialTimeout,
	})
	if err != nil {
		h.sw.Close()
		return fmt.Errorf("p2p: %w", err)
	}
	h.undo = append(h.undo, h.bh)
	h.doors = &listeners{id: h.id, sockets: h.cfg.Sockets, sw: h.sw, log: h.log}
	h.peers = newPeers(h.sw, h.cfg.Admitted)
	h.silence = &silence{life: h.life, sw: h.sw, hello: h.hello, allow: h.allow}
	h.relays = newRelays(h)
	return h.relays.use(upgrade)
}

// Close ends every stream, connection and goroutine. It waits for handlers, which see their streams
// break, but not for ever.
func (h *Host) Close() error {
	var err error
	h.close.Do(func() {
		h.life.end()
		if h.relays != nil {
			h.relays.stop()
		}
		for i := len(h.undo) - 1; i >= 0; i-- {
			if e := h.undo[i].Close(); err == nil {
				err = e
			}
		}
		if !h.life.wait() {
			h.log.Error("a stream handler does not return after its stream was broken")
		}
	})
	return err
}

// Self is the own peer id.
func (h *Host) Self() string { return h.id.String() }

// Addrs are the multiaddrs others may dial, best first, without /p2p/ID: announced ones, public
// ones, private ones, relayed ones.
func (h *Host) Addrs() []string {
	list := orderAddrs(h.advertised(), h.announce, virtualIPs())
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = a.String()
	}
	return out
}

// advertised are all addresses others may dial.
func (h *Host) advertised() []ma.Multiaddr {
	addrs := append(slices.DeleteFunc(slices.Clone(h.bh.AllAddrs()), h.doors.isFallback), h.announce...)
	return orderAddrs(append(addrs, h.relays.addresses()...), h.announce, nil)
}

// untold is what identify, which answers anybody, says of our addresses: nothing. A peer that asks
// knows the one it dialled; members learn the others from membership.
func untold([]ma.Multiaddr) []ma.Multiaddr { return nil }

// Handle serves a protocol. f gets one stream at a time per goroutine and closes it; nil stops
// serving. Peers that are not admitted reach f only if Config.Strangers has the protocol.
func (h *Host) Handle(name string, f func(peer string, c net.Conn)) {
	if f == nil {
		h.bh.RemoveStreamHandler(protocol.ID(name))
		return
	}
	h.bh.SetStreamHandler(protocol.ID(name), h.gate.guard(name, func(s network.Stream, stranger bool) {
		if !h.life.begin() {
			s.Reset()
			return
		}
		defer h.life.wg.Done()
		if o := (opened{s.Conn().RemotePeer(), name}); !stranger {
			if !h.gate.enterAdmitted(o) {
				s.ResetWithError(network.StreamResourceLimitExceeded)
				return
			}
			defer h.gate.leaveAdmitted(o)
		}
		c := newConn(s, stranger)
		if !stranger {
			h.silence.watch(c)
		}
		f(s.Conn().RemotePeer().String(), c)
	}))
}

// gatedHost is the host as libp2p's own services see it: strangers do not reach their handlers, and
// they open nothing to strangers.
type gatedHost struct {
	host.Host
	gate *gate
	ids  identify.IDService
}

func (h *Host) gated() gatedHost { return gatedHost{h.bh, h.gate, h.bh.IDService()} }

func (g gatedHost) SetStreamHandler(p protocol.ID, f network.StreamHandler) {
	g.Host.SetStreamHandler(p, g.gate.guard(string(p), func(s network.Stream, _ bool) { f(s) }))
}

func (g gatedHost) SetStreamHandlerMatch(p protocol.ID, match func(protocol.ID) bool, f network.StreamHandler) {
	g.Host.SetStreamHandlerMatch(p, match, g.gate.guard(string(p), func(s network.Stream, _ bool) { f(s) }))
}

func (g gatedHost) NewStream(ctx context.Context, p peer.ID, ps ...protocol.ID) (network.Stream, error) {
	if !g.gate.admits(p) {
		return nil, ErrNotAdmitted
	}
	return g.Host.NewStream(ctx, p, ps...)
}

// IDService is what circuit and hole punching look for beside host.Host.
func (g gatedHost) IDService() identify.IDService { return g.ids }
