package p2p

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"github.com/coveyproject/covey/internal/wake"
)

// peers is who is connected: it tells of those who come and go, and keeps the connections of peers
// that are not admitted for a short time.
type peers struct {
	sw       *swarm.Swarm
	admitted func(peer string) bool
	wake     wake.Signal // there is a stranger to look after

	mu      sync.Mutex
	strange map[network.Conn]time.Time // until when

	tell   sync.Mutex // orders callbacks; held while they run
	up     map[peer.ID]bool
	onUp   []func(string)
	onDown []func(string)
}

func newPeers(sw *swarm.Swarm, admitted func(string) bool) *peers {
	return &peers{
		sw: sw, admitted: admitted, wake: wake.New(),
		strange: map[network.Conn]time.Time{}, up: map[peer.ID]bool{},
	}
}

// stranger keeps a connection of a peer that is not admitted, for a while.
func (ps *peers) stranger(c network.Conn) {
	until := strangerConnTime
	if c.Stat().Direction == network.DirOutbound {
		until = unknownDialedTime
	}
	ps.mu.Lock()
	ps.strange[c] = time.Now().Add(until)
	ps.mu.Unlock()
	ps.wake.Set()
}

// strangers takes out those that are admitted now and those whose time is over, and counts the
// rest.
func (ps *peers) strangers(now time.Time) (admitted, over []network.Conn, left int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for c, until := range ps.strange {
		switch {
		case ps.admitted(c.RemotePeer().String()):
			admitted = append(admitted, c)
		case now.After(until):
			over = append(over, c)
		default:
			continue
		}
		delete(ps.strange, c)
	}
	return admitted, over, len(ps.strange)
}

// ended forgets a connection.
func (ps *peers) ended(c network.Conn) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.strange, c)
}

// settle compares what was told about a peer with how it is, and tells.
func (ps *peers) settle(p peer.ID) {
	ps.tell.Lock()
	defer ps.tell.Unlock()
	up := ps.admitted(p.String()) && len(ps.sw.ConnsToPeer(p)) > 0
	if up == ps.up[p] {
		return
	}
	calls := ps.onDown
	if up {
		ps.up[p] = true
		calls = ps.onUp
	} else {
		delete(ps.up, p)
	}
	for _, f := range calls {
		f(p.String())
	}
}

// told tells whether a peer was told to be connected.
func (ps *peers) told(p peer.ID) bool {
	ps.tell.Lock()
	defer ps.tell.Unlock()
	return ps.up[p]
}

// connected is called by the swarm for every new connection, before streams on it are served.
func (h *Host) connected(_ network.Network, c network.Conn) {
	p := c.RemotePeer()
	if h.gate.isBlocked(p) { // blocked while the handshake was under way
		h.life.spawn(func() { c.Close() })
		return
	}
	h.refusals.arrived(p)
	if !h.gate.admits(p) {
		h.peers.stranger(c)
		return
	}
	h.refusals.was(c)
	h.peers.settle(p)
	h.relays.wake.Set()
	h.second(p)
}

// disconnected is called by the swarm for every connection that ended.
func (h *Host) disconnected(_ network.Network, c network.Conn) {
	h.peers.settle(c.RemotePeer())
	h.peers.ended(c)
	h.relays.wake.Set()
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
		if h.peers.told(p) && !h.gate.admits(p) {
			h.peers.settle(p)
			h.sw.ClosePeer(p)
		}
	}
	h.peers.wake.Set()
}

// watch looks after connections of peers that are not admitted: until they are, or their time is
// over.
func (h *Host) watch() {
	const often = 250 * time.Millisecond
	t := time.NewTimer(often)
	defer t.Stop()
	for {
		select {
		case <-h.life.ctx.Done():
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
	admitted, over, left := h.peers.strangers(now)
	for _, c := range over {
		h.life.spawn(func() { c.Close() })
	}
	for _, c := range admitted {
		h.refusals.was(c)
		h.promoted(c.RemotePeer())
		h.second(c.RemotePeer())
	}
	return left
}

// promoted starts what a peer gets that was admitted while connected.
func (h *Host) promoted(p peer.ID) {
	h.peers.settle(p)
	h.topics.lookAgain(p)
	h.relays.wake.Set()
	h.life.spawn(func() { // so that it looks at us again, too
		ctx, cancel := context.WithTimeout(h.life.ctx, h.allow(dialTimeout, p))
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
