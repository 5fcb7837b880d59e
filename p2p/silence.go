package p2p

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"github.com/coveyproject/covey/internal/strain"
)

// doubtTime is how long a connected peer has to answer when others say that it is gone.
const doubtTime = time.Second

// silence closes connections that stand and say nothing. It owns which peers are being looked at.
type silence struct {
	life    *life
	sw      *swarm.Swarm
	hello   func(context.Context, peer.ID) error
	allow   func(time.Duration, peer.ID) time.Duration
	looking sync.Map // the peers whose connections are being looked at
}

// Doubt closes the connections to a peer on which it does not answer within a second, or within
// some round trips if it is far away. Others say
// that it is gone, which is right or not: a silently dead connection would make dials to its next
// life hang, and one that works is better news than theirs. It returns at once.
func (h *Host) Doubt(peerID string) {
	if p, err := peer.Decode(peerID); err == nil {
		h.life.spawn(func() { h.silence.check(p, doubtTime) })
	}
}

// watch has the connections to a peer looked at when somebody has waited on a stream in vain. TCP
// tries again ever later what a cut has swallowed: after a cut of seven seconds it may be silent
// for six more, while a new connection would be answered at once.
func (s *silence) watch(c *conn) *conn {
	c.silent = func() { s.heard(c.Conn().RemotePeer()) }
	return c
}

// heard is told of a Read that waited in vain. One look at a peer at once is enough.
func (s *silence) heard(p peer.ID) {
	if _, looked := s.looking.LoadOrStore(p, nil); looked {
		return
	}
	s.life.spawn(func() {
		defer s.looking.Delete(p)
		s.check(p, dialTimeout)
	})
}

// check closes the connections to a peer on which it does not answer in time. One that is far away
// has some round trips for that.
func (s *silence) check(p peer.ID, patience time.Duration) {
	old := s.sw.ConnsToPeer(p)
	if len(old) == 0 {
		return
	}
	ctx, cancel := strain.Timeout(network.WithNoDial(s.life.ctx, "doubt"), s.allow(patience, p))
	defer cancel()
	if err := s.hello(ctx, p); err == nil || answered(err) {
		return
	}
	for _, c := range old {
		c.Close()
	}
}
