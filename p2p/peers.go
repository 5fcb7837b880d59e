package p2p

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// rttAge is after how long a measured round trip is measured again, once somebody asks for it.
const rttAge = 30 * time.Second

// peers is who is connected. Connections of peers that are not admitted live in strange, for a
// short time.
type peers struct {
	mu      sync.Mutex
	strange map[network.Conn]time.Time // until when
	rtt     map[peer.ID]rtt
	wake    chan struct{} // the watch has something to do

	tell   sync.Mutex // orders callbacks; held while they run
	up     map[peer.ID]bool
	onUp   []func(string)
	onDown []func(string)
}

type rtt struct {
	d    time.Duration
	at   time.Time
	busy bool
}

func (p *peers) init() {
	p.strange, p.rtt, p.up = map[network.Conn]time.Time{}, map[peer.ID]rtt{}, map[peer.ID]bool{}
	p.wake = make(chan struct{}, 1)
}

func (p *peers) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *peers) measured(id peer.ID, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rtt[id] = rtt{d: d, at: time.Now()}
}

// connected is called by the swarm for every new connection, before streams on it are served.
func (h *Host) connected(_ network.Network, c network.Conn) {
	p := c.RemotePeer()
	if h.gate.isBlocked(p) { // blocked while the handshake was under way
		h.spawn(func() { c.Close() })
		return
	}
	h.refusals.arrived(p)
	if !h.cfg.Admitted(p.String()) {
		until := strangerConnTime
		if c.Stat().Direction == network.DirOutbound {
			until = unknownDialedTime
		}
		h.peers.mu.Lock()
		h.peers.strange[c] = time.Now().Add(until)
		h.peers.mu.Unlock()
		h.peers.nudge()
		return
	}
	h.refusals.was(c)
	h.settle(p)
	h.relay.nudge()
	h.second(p)
}

// disconnected is called by the swarm for every connection that ended.
func (h *Host) disconnected(_ network.Network, c network.Conn) {
	h.notStrange(c)
	h.settle(c.RemotePeer())
	if len(h.sw.ConnsToPeer(c.RemotePeer())) == 0 {
		h.peers.mu.Lock()
		delete(h.peers.rtt, c.RemotePeer())
		h.peers.mu.Unlock()
	}
	h.relay.nudge()
}

func (h *Host) notStrange(c network.Conn) {
	h.peers.mu.Lock()
	delete(h.peers.strange, c)
	h.peers.mu.Unlock()
}

// settle compares what was told about a peer with how it is, and tells.
func (h *Host) settle(p peer.ID) {
	h.peers.tell.Lock()
	defer h.peers.tell.Unlock()
	up := h.cfg.Admitted(p.String()) && len(h.sw.ConnsToPeer(p)) > 0
	if up == h.peers.up[p] {
		return
	}
	calls := h.peers.onDown
	if up {
		h.peers.up[p] = true
		calls = h.peers.onUp
	} else {
		delete(h.peers.up, p)
	}
	for _, f := range calls {
		f(p.String())
	}
}

// OnConnect calls f when an admitted peer has its first connection, or a connected one is admitted.
// f must be quick and not call the host back; calls come one at a time, in order.
func (h *Host) OnConnect(f func(peer string)) {
	h.peers.tell.Lock()
	defer h.peers.tell.Unlock()
	h.peers.onUp = append(h.peers.onUp, f)
}

// OnDisconnect calls f when the last connection to an admitted peer is gone, or its admission is.
// As for OnConnect.
func (h *Host) OnDisconnect(f func(peer string)) {
	h.peers.tell.Lock()
	defer h.peers.tell.Unlock()
	h.peers.onDown = append(h.peers.onDown, f)
}

// Recheck asks Config.Admitted about every connection again: who was removed is cut off, who was
// admitted gets its topics. Call it after the roster changed.
func (h *Host) Recheck() {
	for _, p := range h.sw.Peers() {
		h.peers.tell.Lock()
		was := h.peers.up[p]
		h.peers.tell.Unlock()
		if was && !h.cfg.Admitted(p.String()) {
			h.settle(p)
			h.sw.ClosePeer(p)
		}
	}
	h.peers.nudge()
}

// watch looks after connections of peers that are not admitted: until they are, or their time is
// over.
func (h *Host) watch() {
	const often = 250 * time.Millisecond
	t := time.NewTimer(often)
	defer t.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-h.peers.wake:
		case <-t.C:
		}
		if h.sweep(time.Now()) > 0 {
			t.Reset(often)
		}
	}
}

// sweep returns how many such connections are left.
func (h *Host) sweep(now time.Time) int {
	h.peers.mu.Lock()
	var admitted, over []network.Conn
	for c, until := range h.peers.strange {
		switch {
		case h.cfg.Admitted(c.RemotePeer().String()):
			admitted = append(admitted, c)
		case now.After(until):
			over = append(over, c)
		}
	}
	left := len(h.peers.strange) - len(admitted) - len(over)
	h.peers.mu.Unlock()
	for _, c := range over {
		h.notStrange(c)
		h.spawn(func() { c.Close() })
	}
	for _, c := range admitted {
		h.notStrange(c)
		h.refusals.was(c)
		h.promoted(c.RemotePeer())
		h.second(c.RemotePeer())
	}
	return left
}

// promoted starts what a peer gets that was admitted while connected.
func (h *Host) promoted(p peer.ID) {
	h.settle(p)
	h.pokeTopics(p)
	h.relay.nudge()
	h.spawn(func() { // so that it looks at us again, too
		ctx, cancel := context.WithTimeout(h.ctx, dialTimeout)
		defer cancel()
		if err := h.hello(ctx, p); err != nil {
			h.log.Debug("hello to a newly admitted peer", "peer", p, "err", err)
		}
	})
}

// Connected tells how a peer is connected: by a direct connection, by a relayed one, both or
// neither.
func (h *Host) Connected(peerID string) (direct, relayed bool) {
	p, err := peer.Decode(peerID)
	if err != nil {
		return false, false
	}
	for _, c := range h.sw.ConnsToPeer(p) {
		if isRelay(c.RemoteMultiaddr()) {
			relayed = true
		} else {
			direct = true
		}
	}
	return direct, relayed
}

// RTT is the round trip to a connected peer as last measured, and whether it was. A measurement
// older than half a minute starts a new one in the background.
func (h *Host) RTT(peerID string) (time.Duration, bool) {
	p, err := peer.Decode(peerID)
	if err != nil || h.ctx.Err() != nil || len(h.sw.ConnsToPeer(p)) == 0 {
		return 0, false
	}
	h.peers.mu.Lock()
	defer h.peers.mu.Unlock()
	r, known := h.peers.rtt[p]
	if !r.busy && time.Since(r.at) > rttAge {
		r.busy = true
		h.peers.rtt[p] = r
		h.spawn(func() { h.measure(p) })
	}
	return r.d, known && r.d > 0
}

func (h *Host) measure(p peer.ID) {
	ctx, cancel := context.WithTimeout(h.ctx, dialTimeout)
	defer cancel()
	if err := h.hello(network.WithNoDial(ctx, "rtt"), p); err == nil {
		return
	}
	h.peers.mu.Lock()
	defer h.peers.mu.Unlock()
	if r, ok := h.peers.rtt[p]; ok { // try again in half a minute
		r.busy, r.at = false, time.Now()
		h.peers.rtt[p] = r
	}
}
