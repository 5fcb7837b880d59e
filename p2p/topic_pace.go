package p2p

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/time/rate"
)

// What one neighbour may publish and pass on to this peer. pubsub remembers every message's name
// and keeps, checks and passes on what is accepted: what is above this is dropped before it sees
// it. Topics promise nothing anyway.
const (
	topicMessages      = 2000 // a second
	topicMessageBurst  = 8000
	topicBytes         = 4 << 20 // a second
	topicBytesBurst    = 16 << 20
	topicSeen          = 30 * time.Second // a message is known again for so long; pubsub's own window for repeats is half of it
	topicSubscriptions = 16               // of one neighbour; there are a handful of topics
	topicNeighbours    = 4096             // whose paces are remembered
	topicLog           = time.Minute      // the log speaks of a neighbour at most so often
)

// topicPaces holds every neighbour to what one may send.
type topicPaces struct {
	log     *slog.Logger
	dropped func(n uint64)

	mu sync.Mutex
	of map[peer.ID]*topicPace
}

type topicPace struct {
	messages, bytes *rate.Limiter
	read            *rate.Limiter // bytes, before anything is made of them
	topics          []string      // it is subscribed to
	lost            uint64        // messages, not logged yet
	logged          time.Time
}

// pace is a neighbour's; the lock is held.
func (t *topicPaces) pace(id peer.ID) *topicPace {
	p := t.of[id]
	if p == nil {
		if len(t.of) >= topicNeighbours {
			clear(t.of)
		}
		p = &topicPace{messages: rate.NewLimiter(topicMessages, topicMessageBurst), bytes: rate.NewLimiter(topicBytes, topicBytesBurst), read: rate.NewLimiter(topicBytes, topicBytesBurst)}
		t.of[id] = p
	}
	return p
}

// inspect takes out of what a neighbour sent the messages that are too many. pubsub calls it from
// its one loop.
func (t *topicPaces) inspect(from peer.ID, rpc *pubsub.RPC) error {
	if len(rpc.GetPublish()) == 0 {
		return nil
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pace(from)
	before := len(rpc.Publish)
	rpc.Publish = slices.DeleteFunc(rpc.Publish, func(m *pb.Message) bool {
		return !p.messages.AllowN(now, 1) || !p.bytes.AllowN(now, min(len(m.GetData()), topicBytesBurst))
	})
	lost := uint64(before - len(rpc.Publish))
	if lost == 0 {
		return nil
	}
	t.dropped(lost)
	if p.lost += lost; now.Sub(p.logged) >= topicLog {
		t.log.Warn("a neighbour publishes more than one may: the rest is dropped", "peer", from.String(), "messages", p.lost)
		p.lost, p.logged = 0, now
	}
	return nil
}

var _ pubsub.SubscriptionFilter = (*topicPaces)(nil)

func (*topicPaces) CanSubscribe(string) bool { return true }

// FilterIncomingSubscriptions implements pubsub.SubscriptionFilter: nobody is subscribed to more
// than a few topics, whose names pubsub keeps.
func (t *topicPaces) FilterIncomingSubscriptions(from peer.ID, subs []*pb.RPC_SubOpts) ([]*pb.RPC_SubOpts, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pace(from)
	return slices.DeleteFunc(subs, func(s *pb.RPC_SubOpts) bool {
		known := slices.Contains(p.topics, s.GetTopicid())
		switch {
		case !s.GetSubscribe():
			p.topics = slices.DeleteFunc(p.topics, func(name string) bool { return name == s.GetTopicid() })
			return !known
		case known:
			return false
		case len(p.topics) >= topicSubscriptions:
			return true
		}
		p.topics = append(p.topics, s.GetTopicid())
		return false
	}), nil
}

// slowed is pubsub's host: what a neighbour sends is read no faster than one may publish, so that
// the rest waits at its own end.
type slowed struct {
	untagged
	ctx   context.Context // of the host
	paces *topicPaces
}

func (s slowed) SetStreamHandler(p protocol.ID, f network.StreamHandler) {
	s.untagged.SetStreamHandler(p, func(st network.Stream) { f(s.slow(st)) })
}

func (s slowed) SetStreamHandlerMatch(p protocol.ID, match func(protocol.ID) bool, f network.StreamHandler) {
	s.untagged.SetStreamHandlerMatch(p, match, func(st network.Stream) { f(s.slow(st)) })
}

func (s slowed) slow(st network.Stream) network.Stream {
	s.paces.mu.Lock()
	defer s.paces.mu.Unlock()
	return slowStream{st, s.ctx, s.paces.pace(st.Conn().RemotePeer()).read}
}

// slowStream waits after each read as long as the next one has to.
type slowStream struct {
	network.Stream
	ctx  context.Context // of the host
	pace *rate.Limiter
}

func (s slowStream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b[:min(len(b), topicBytes/16)]) // a reset is noticed within a moment
	if n > 0 && s.pace.WaitN(s.ctx, n) != nil {
		return n, s.ctx.Err()
	}
	return n, err
}
