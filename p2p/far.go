package p2p

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-yamux/v5"
	"github.com/quic-go/quic-go"

	"github.com/coveyproject/covey/internal/far"
)

const (
	// remembered is a round trip that is remembered when the connection ends.
	remembered = dialTimeout / 4
	// searchTime bounds the search for a connection. A handshake over TCP takes three round trips,
	// and their length is unknown before the first is over.
	searchTime = far.Most
	// unanswered bounds a search without callers that the other side has not answered yet.
	unanswered = far.Away + time.Second
)

// maxFar bounds the peers that are remembered to be far away.
const maxFar = 4096

// distances remembers which peers are far away, for the next dial. The zero value is ready.
type distances struct {
	mu  sync.Mutex
	far map[peer.ID]time.Duration
}

// note records a round trip to a peer. Those below remembered are nothing to remember.
func (d *distances) note(p peer.ID, rtt time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rtt < remembered {
		delete(d.far, p)
		return
	}
	if len(d.far) >= maxFar && d.far[p] == 0 {
		return
	}
	if d.far == nil {
		d.far = map[peer.ID]time.Duration{}
	}
	d.far[p] = rtt
}

// last returns the round trip to a peer when it was far away, 0 if it is not known to be.
func (d *distances) last(p peer.ID) time.Duration {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.far[p]
}

// RTT returns the round trip to a peer as its connections measured it, 0 if none did. A peer that
// was far away when it was connected last counts as far until a connection tells otherwise.
func (h *Host) RTT(peerID string) time.Duration {
	p, err := peer.Decode(peerID)
	if err != nil {
		return 0
	}
	return h.rtt(p)
}

func (h *Host) rtt(p peer.ID) (rtt time.Duration) {
	for _, c := range h.sw.ConnsToPeer(p) {
		if d := rttOf(c); d > 0 && (rtt == 0 || d < rtt) {
			rtt = d
		}
	}
	if rtt > 0 {
		h.distances.note(p, rtt)
		return rtt
	}
	return h.distances.last(p)
}

// rttOf is what a connection measured, 0 if nothing came back yet.
func rttOf(c network.Conn) time.Duration {
	var mux *yamux.Session
	var q *quic.Conn
	switch {
	case c.As(&mux):
		return mux.RTT()
	case c.As(&q):
		return q.ConnectionStats().SmoothedRTT
	}
	return 0
}

// allow is how long to wait for a peer where d is enough on fast links.
func (h *Host) allow(d time.Duration, p peer.ID) time.Duration { return far.Allow(d, h.rtt(p)) }

// redial connects with dial, again every dialTimeout beside those under way, until one of them has
// an outcome or ctx ends. Over a far link the first may need longer than that. Behind a cut that
// has just healed, the system would repeat the first one later than a new one is sent.
func redial[C interface{ Close() error }](ctx context.Context, dial func(context.Context) (C, error)) (c C, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		c   C
		err error
	}
	first := make(chan outcome)
	try := func() {
		c, err := dial(ctx)
		select {
		case first <- outcome{c, err}:
		case <-ctx.Done():
			if err == nil {
				_ = c.Close()
			}
		}
	}
	again := time.NewTicker(dialTimeout)
	defer again.Stop()
	for {
		go try() // ends with ctx
		select {
		case o := <-first:
			return o.c, o.err
		case <-ctx.Done():
			return c, ctx.Err()
		case <-again.C:
		}
	}
}
