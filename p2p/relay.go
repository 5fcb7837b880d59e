package p2p

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	relayserver "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	relaysKept    = 2                // relays a peer behind a NAT keeps a place at
	relayAddrs    = 2                // addresses told of each
	relayTTL      = time.Hour        // how long a place is kept without a word
	relayRefresh  = 20 * time.Minute // asked again so long before it ends
	relayCircuits = 64               // connections through one relay for each peer, at once
)

// relayState is what a peer knows about being reached, and the places it holds at relays. libp2p's
// autorelay knows public relays of the internet only; ours may stand in any network, and are the
// peers we could open a connection to.
type relayState struct {
	mu      sync.Mutex
	asked   map[peer.ID]answer // what peers say about reaching us
	places  map[peer.ID]relayPlace
	addrs   []ma.Multiaddr
	onAddrs []func()
	wake    chan struct{}
	undo    []io.Closer
	mirror  mirror
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

// nudge has the relay loop look again.
func (r *relayState) nudge() {
	select {
	case r.wake <- struct{}{}: // a nil channel if relays are off
	default:
	}
}

// addresses are those through relays.
func (r *relayState) addresses() []ma.Multiaddr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs
}

// OnAddrs calls f when Addrs has changed because of a relay. f must be quick.
func (h *Host) OnAddrs(f func()) {
	h.relay.mu.Lock()
	defer h.relay.mu.Unlock()
	h.relay.onAddrs = append(h.relay.onAddrs, f)
}

// useRelays lets the host dial and be dialled through relays.
func (h *Host) useRelays(upgrade transport.Upgrader) error {
	if !h.cfg.Relay {
		return nil
	}
	c, err := circuit.New(gatedHost{h.bh, h}, upgrade)
	if err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	if err := h.sw.AddTransport(c); err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	if err := h.sw.Listen(ma.StringCast("/p2p-circuit")); err != nil {
		return fmt.Errorf("p2p: %w", err)
	}
	c.Start()
	return nil
}

// startRelay serves circuits and starts the loop that looks for relays when we need one.
func (h *Host) startRelay() error {
	if !h.cfg.Relay {
		return nil
	}
	r := &h.relay
	r.asked, r.places, r.wake = map[peer.ID]answer{}, map[peer.ID]relayPlace{}, make(chan struct{}, 1)
	n := h.cfg.Peers
	server, err := relayserver.New(gatedHost{h.bh, h}, relayserver.WithACL(relayACL{h}),
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
	if !h.onlyLoopback() {
		h.startMirror()
	}
	h.bh.SetStreamHandler(reachProtocol, h.guard(reachProtocol, h.serveReach))
	if h.cfg.Reachability == ReachPublic || h.onlyLoopback() && h.cfg.Reachability == ReachAuto {
		return nil
	}
	h.spawn(h.keepRelays)
	r.nudge()
	return nil
}

// stopRelay ends the services before the host they run on.
func (h *Host) stopRelay() {
	h.relay.mu.Lock()
	undo := h.relay.undo
	h.relay.undo = nil
	h.relay.mu.Unlock()
	for _, c := range slices.Backward(undo) {
		c.Close()
	}
}

// relayACL serves admitted peers only.
type relayACL struct{ h *Host }

// AllowReserve asks whether a peer may be reached through us.
func (a relayACL) AllowReserve(p peer.ID, _ ma.Multiaddr) bool {
	return a.h.cfg.Admitted(p.String()) && !a.h.gate.isBlocked(p)
}

// AllowConnect asks whether src may reach dest through us.
func (a relayACL) AllowConnect(src peer.ID, _ ma.Multiaddr, dest peer.ID) bool {
	return a.AllowReserve(src, nil) && a.AllowReserve(dest, nil)
}

// keepRelays runs while the host does: after every change of connections, and now and then.
func (h *Host) keepRelays() {
	for {
		h.askReach()
		every := h.cfg.RelayCheck
		if h.private() {
			h.reserve()
			h.look()
			every = min(every, mirrorEvery)
		} else {
			h.setPlaces(map[peer.ID]relayPlace{})
		}
		t := time.NewTimer(every)
		select {
		case <-h.ctx.Done():
			t.Stop()
			return
		case <-t.C:
		case <-h.relay.wake:
			t.Stop()
		}
	}
}

// private tells whether some peer cannot reach us.
func (h *Host) private() bool {
	switch h.cfg.Reachability {
	case ReachPrivate:
		return true
	case ReachPublic:
		return false
	}
	h.relay.mu.Lock()
	defer h.relay.mu.Unlock()
	for _, a := range h.relay.asked {
		if !a.reached {
			return true
		}
	}
	return false
}

// reserve takes and refreshes places at relays, and lets go of those whose relay is gone.
func (h *Host) reserve() {
	now := time.Now()
	h.relay.mu.Lock()
	old := h.relay.places
	h.relay.mu.Unlock()
	next := map[peer.ID]relayPlace{}
	for p, pl := range old {
		if h.directTo(p) != nil && now.Before(pl.until.Add(-relayRefresh)) {
			next[p] = pl
		}
	}
	for _, p := range h.relayCandidates() {
		if len(next) >= relaysKept || h.ctx.Err() != nil {
			break
		}
		if _, ok := next[p]; ok {
			continue
		}
		ctx, cancel := context.WithTimeout(h.ctx, dialTimeout)
		res, err := circuit.Reserve(ctx, gatedHost{h.bh, h}, peer.AddrInfo{ID: p})
		cancel()
		if err != nil {
			h.log.Debug("no place at a relay", "relay", p, "err", err)
			continue
		}
		if res.LimitData > 0 || res.LimitDuration > 0 {
			continue // a foreign relay with libp2p's limits: jobs do not fit
		}
		next[p] = relayPlace{until: res.Expiration, addrs: h.addrsOfRelay(p)}
	}
	h.setPlaces(next)
}

// setPlaces publishes the addresses through relays, if they changed.
func (h *Host) setPlaces(places map[peer.ID]relayPlace) {
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
	h.relay.mu.Lock()
	h.relay.places = places
	same := slices.EqualFunc(addrs, h.relay.addrs, ma.Multiaddr.Equal)
	h.relay.addrs = addrs
	tell := slices.Clone(h.relay.onAddrs)
	h.relay.mu.Unlock()
	if same {
		return
	}
	h.log.Info("addresses through relays changed", "addrs", addrs)
	for _, f := range tell {
		f()
	}
}
