package p2p

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	bhost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	relayserver "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/coveyproject/covey/internal/wake"
)

const (
	relaysKept    = 2                // relays a peer behind a NAT keeps a place at
	relayAddrs    = 2                // addresses told of each
	relayTTL      = time.Hour        // how long a place is kept without a word
	relayRefresh  = 20 * time.Minute // asked again so long before it ends
	relayCircuits = 64               // connections through one relay for each peer, at once
)

// relays is what a peer knows about being reached, and the places it holds at relays; it serves
// circuits to others and looks for a direct way beside them. libp2p's autorelay knows public relays
// of the internet only; ours may stand in any network, and are the peers we could open a connection
// to.
type relays struct {
	cfg   Config
	log   *slog.Logger
	life  *life
	sw    *swarm.Swarm
	bh    *bhost.BasicHost
	gated gatedHost
	doors *listeners
	ports func() []uint16                                     // at which others may find us
	who   func(context.Context, ma.Multiaddr) (string, error) // lives there
	quic  *quicreuse.ConnManager
	wake  wake.Signal // nil if relays are off

	mirror mirror

	mu     sync.Mutex
	asked  map[peer.ID]answer // what peers say about reaching us
	places map[peer.ID]relayPlace
	addrs  []ma.Multiaddr
	undo   []io.Closer
}

func newRelays(h *Host) *relays {
	r := &relays{
		cfg: h.cfg, log: h.log, life: h.life, sw: h.sw, bh: h.bh, gated: h.gated(), doors: h.doors,
		ports: h.ports, who: h.who, quic: h.quic,
		asked: map[peer.ID]answer{}, places: map[peer.ID]relayPlace{},
	}
	if h.cfg.Relay {
		r.wake = wake.New()
	}
	return r
}

type answer struct {
	reached bool
	mirror  []byte // the key to its mirror
	at      time.Time
}

type relayPlace struct {
	until time.Time
	addrs []ma.Multiaddr // of the relay
}

// addresses are those through relays.
func (r *relays) addresses() []ma.Multiaddr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs
}

// use lets the host dial and be dialled through relays.
func (r *relays) use(upgrade transport.Upgrader) error {
	if !r.cfg.Relay {
		return nil
	}
	c, err := circuit.New(r.gated, upgrade)
	if err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	if err := r.sw.AddTransport(c); err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	if err := r.sw.Listen(ma.StringCast("/p2p-circuit")); err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	c.Start()
	return nil
}

// start serves circuits and starts the loop that looks for relays when we need one.
func (r *relays) start() error {
	if !r.cfg.Relay {
		return nil
	}
	n := r.cfg.Peers
	server, err := relayserver.New(r.gated, relayserver.WithACL(relayACL{r.gated.gate}),
		relayserver.WithReservationAddressFilter(func(ma.Multiaddr) bool { return true }),
		relayserver.WithResources(relayserver.Resources{
			// No Limit: circuits of admitted peers are not cut off after two minutes or 128 KiB.
			ReservationTTL: relayTTL, MaxReservations: n, MaxCircuits: relayCircuits, BufferSize: 16 << 10,
			MaxReservationsPerIP: n, MaxReservationsPerASN: n,
		}))
	if err != nil {
		return fmt.Errorf("p2p: relay: %w", err)
	}
	r.undo = append(r.undo, server)
	if !r.doors.onlyLoopback() {
		r.startMirror()
	}
	r.bh.SetStreamHandler(reachProtocol, r.gated.gate.guard(reachProtocol, r.serveReach))
	if r.doors.onlyLoopback() {
		return nil
	}
	r.life.spawn(r.keepRelays)
	r.wake.Set()
	return nil
}

// stop ends the services before the host they run on.
func (r *relays) stop() {
	r.mu.Lock()
	undo := r.undo
	r.undo = nil
	r.mu.Unlock()
	for _, c := range slices.Backward(undo) {
		c.Close()
	}
}

// relayACL serves admitted peers only.
type relayACL struct{ gate *gate }

// AllowReserve asks whether a peer may be reached through us.
func (a relayACL) AllowReserve(p peer.ID, _ ma.Multiaddr) bool {
	return a.gate.admits(p) && !a.gate.isBlocked(p)
}

// AllowConnect asks whether src may reach dest through us.
func (a relayACL) AllowConnect(src peer.ID, _ ma.Multiaddr, dest peer.ID) bool {
	return a.AllowReserve(src, nil) && a.AllowReserve(dest, nil)
}

// keepRelays runs while the host does: after every change of connections, and now and then.
func (r *relays) keepRelays() {
	for {
		r.askReach()
		every := r.cfg.RelayCheck
		if r.private() {
			r.reserve()
			r.look()
			every = min(every, mirrorEvery)
		} else {
			r.setPlaces(map[peer.ID]relayPlace{})
		}
		t := time.NewTimer(every)
		select {
		case <-r.life.ctx.Done():
			t.Stop()
			return
		case <-t.C:
		case <-r.wake:
			t.Stop()
		}
	}
}

// private tells whether some peer cannot reach us.
func (r *relays) private() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asked {
		if !a.reached {
			return true
		}
	}
	return false
}

// reserve takes and refreshes places at relays, and lets go of those whose relay is gone.
func (r *relays) reserve() {
	now := time.Now()
	r.mu.Lock()
	old := r.places
	r.mu.Unlock()
	next := map[peer.ID]relayPlace{}
	for p, pl := range old {
		if r.directTo(p) != nil && now.Before(pl.until.Add(-relayRefresh)) {
			next[p] = pl
		}
	}
	for _, p := range r.relayCandidates() {
		if len(next) >= relaysKept || r.life.ctx.Err() != nil {
			break
		}
		if _, ok := next[p]; ok {
			continue
		}
		ctx, cancel := context.WithTimeout(r.life.ctx, dialTimeout)
		res, err := circuit.Reserve(ctx, r.gated, peer.AddrInfo{ID: p})
		cancel()
		if err != nil {
			r.log.Debug("no place at a relay", "relay", p, "err", err)
			continue
		}
		if res.LimitData > 0 || res.LimitDuration > 0 {
			continue // a foreign relay with libp2p's limits: jobs do not fit
		}
		next[p] = relayPlace{until: res.Expiration, addrs: r.addrsOfRelay(p)}
	}
	r.setPlaces(next)
}

// setPlaces publishes the addresses through relays, if they changed.
func (r *relays) setPlaces(places map[peer.ID]relayPlace) {
	var addrs []ma.Multiaddr
	for p, pl := range places {
		for _, a := range pl.addrs {
			via, err := ma.NewMultiaddr("/p2p/" + p.String() + "/p2p-circuit")
			if err == nil {
				addrs = append(addrs, a.Encapsulate(via))
			}
		}
	}
	slices.SortFunc(addrs, ma.Multiaddr.Compare)
	r.mu.Lock()
	r.places = places
	same := slices.EqualFunc(addrs, r.addrs, ma.Multiaddr.Equal)
	r.addrs = addrs
	r.mu.Unlock()
	if !same {
		r.log.Info("addresses through relays changed", "addrs", addrs)
	}
}
