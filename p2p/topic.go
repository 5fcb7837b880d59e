package p2p

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Acceptance is what the receiver of a message says about it.
type Acceptance int

// The verdicts. Only accepted messages travel on to other neighbours.
const (
	Accept Acceptance = iota
	Ignore            // not news, or not for now
	Reject            // wrong: the neighbour should not have passed it on
)

// MaxMessage caps what a topic carries, in bytes; it leaves room for pubsub's own framing within 1
// MiB.
const MaxMessage = 1<<20 - 4<<10

// topicQueue is how many messages wait per neighbour, and for validation, before they are dropped
// (and counted, Host.Dropped): enough for a burst, and not so many that a neighbour which stopped
// reading costs gigabytes.
const topicQueue = 1024

// topicHeartbeat is how often GossipSub looks after its mesh (its default is a second). What is
// published goes to every neighbour at once (flood publishing), and what is lost on the way is
// fetched elsewhere, so that only forwarding in a cluster that is not fully connected waits for the
// mesh; waking up for it costs a peer that has nothing to do as much as a message.
const topicHeartbeat = 3 * time.Second

// Topic is a subscription to one name, spread by GossipSub among admitted peers. It promises
// nothing: messages can be lost, and come in any order. It does not say who wrote a message;
// messages are signed by those who publish them, if that matters.
type Topic struct {
	all   *topics
	name  string
	topic *pubsub.Topic
	stop  pubsub.RelayCancelFunc
	once  sync.Once
}

// topics is GossipSub, started at the first topic. It owns which are joined and counts what is
// lost.
type topics struct {
	life  *life
	host  gatedHost
	log   *slog.Logger
	poke  event.Emitter // has pubsub look at a peer again
	drops drops

	mu sync.Mutex
	ps *pubsub.PubSub
}

func newTopics(l *life, host gatedHost, bus event.Bus, log *slog.Logger) (*topics, error) {
	poke, err := bus.Emitter(new(event.EvtPeerProtocolsUpdated))
	if err != nil {
		return nil, fmt.Errorf("p2p: %w", err)
	}
	return &topics{life: l, host: host, log: log, poke: poke}, nil
}

// lookAgain tells pubsub to look at a peer again: it gives up on one that refused it, which may
// only have been waiting for the news of our admission.
func (t *topics) lookAgain(p peer.ID) {
	t.poke.Emit(event.EvtPeerProtocolsUpdated{Peer: p, Added: []protocol.ID{pubsub.GossipSubID_v11, pubsub.GossipSubID_v12}})
}

// Topic joins a topic. deliver gets every message of others once (while it is remembered: half a
// minute), with the neighbour it came from. It runs on pubsub's validation workers, several at a
// time, and what it takes is time the next message waits; data must not be changed. A name can be
// joined once at a time.
func (h *Host) Topic(name string, deliver func(from string, data []byte) Acceptance) (*Topic, error) {
	return h.topics.join(name, deliver)
}

func (t *topics) join(name string, deliver func(from string, data []byte) Acceptance) (*Topic, error) {
	ps, err := t.start()
	if err != nil {
		return nil, err
	}
	err = ps.RegisterTopicValidator(name, func(_ context.Context, from peer.ID, m *pubsub.Message) pubsub.ValidationResult {
		if from == t.host.ID() {
			return pubsub.ValidationAccept
		}
		if !t.host.gate.admits(from) {
			return pubsub.ValidationIgnore
		}
		switch deliver(from.String(), m.GetData()) {
		case Accept:
			return pubsub.ValidationAccept
		case Reject:
			return pubsub.ValidationReject
		default:
			return pubsub.ValidationIgnore
		}
	}, pubsub.WithValidatorInline(true))
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", name, err)
	}
	joined := &Topic{all: t, name: name}
	if joined.topic, err = ps.Join(name); err == nil {
		joined.stop, err = joined.topic.Relay()
	}
	if err != nil {
		ps.UnregisterTopicValidator(name)
		return nil, fmt.Errorf("topic %s: %w", name, err)
	}
	return joined, nil
}

// Publish hands data to the neighbours. It does not wait for anybody, and our own deliver does not
// see it.
func (t *Topic) Publish(ctx context.Context, data []byte) error {
	if len(data) > MaxMessage {
		return fmt.Errorf("topic %s: a message of %d bytes is above the cap of %d: split it", t.name, len(data), MaxMessage)
	}
	if err := t.topic.Publish(ctx, data); err != nil {
		return fmt.Errorf("topic %s: %w", t.name, err)
	}
	return nil
}

// Close leaves the topic.
func (t *Topic) Close() {
	t.once.Do(func() {
		t.stop()
		t.all.mu.Lock()
		defer t.all.mu.Unlock()
		t.all.ps.UnregisterTopicValidator(t.name)
		t.topic.Close()
	})
}

// Dropped counts messages that were lost because a queue was full, or a neighbour sent too many.
func (h *Host) Dropped() uint64 { return h.topics.drops.n.Load() }

func (t *topics) start() (*pubsub.PubSub, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ps != nil {
		return t.ps, nil
	}
	params := pubsub.DefaultGossipSubParams()
	params.HeartbeatInterval = topicHeartbeat
	params.SlowHeartbeatWarning = 0             // a busy machine is told of by who suffers from it
	params.HistoryLength = params.HistoryGossip // what is accepted is kept for so many heartbeats, and no longer than it is offered to others
	paces := &topicPaces{log: t.log, dropped: func(n uint64) { t.drops.n.Add(n) }, of: map[peer.ID]*topicPace{}}
	ps, err := pubsub.NewGossipSub(t.life.ctx, slowed{untagged{t.host}, t.life.ctx, paces}, pubsub.WithGossipSubParams(params),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(), pubsub.WithMessageIdFn(messageID),
		pubsub.WithFloodPublish(true), pubsub.WithMaxMessageSize(1<<20),
		pubsub.WithPeerOutboundQueueSize(topicQueue), pubsub.WithValidateQueueSize(topicQueue),
		pubsub.WithAppSpecificRpcInspector(paces.inspect), pubsub.WithSubscriptionFilter(paces), pubsub.WithSeenMessagesTTL(topicSeen),
		pubsub.WithRawTracer(&t.drops), pubsub.WithLogger(t.log),
	)
	if err != nil {
		return nil, fmt.Errorf("topics: %w", err)
	}
	t.ps = ps
	return ps, nil
}

// untagged is the host for pubsub, which wants to tag connections by what they deliver so that a
// connection manager spares the useful ones. We have none that closes connections, and pubsub would
// complain about that at every message.
type untagged struct{ gatedHost }

func (untagged) ConnManager() connmgr.ConnManager { return noTags{} }

// noTags takes every tag and keeps none.
type noTags struct{ connmgr.NullConnMgr }

var _ connmgr.Decayer = noTags{}

func (noTags) RegisterDecayingTag(string, time.Duration, connmgr.DecayFn, connmgr.BumpFn) (connmgr.DecayingTag, error) {
	return noTag{}, nil
}

type noTag struct{}

func (noTag) Name() string            { return "" }
func (noTag) Interval() time.Duration { return 0 }
func (noTag) Bump(peer.ID, int) error { return nil }
func (noTag) Remove(peer.ID) error    { return nil }
func (noTag) Close() error            { return nil }

// messageID names a message by its content: the same bytes are one message, whatever peer sends
// them.
func messageID(m *pb.Message) string {
	s := sha256.Sum256(m.GetData())
	return string(s[:20])
}

// drops counts what pubsub throws away without a word.
type drops struct{ n atomic.Uint64 }

var _ pubsub.RawTracer = (*drops)(nil)

func (d *drops) DropRPC(*pubsub.RPC, peer.ID)         { d.n.Add(1) }
func (d *drops) UndeliverableMessage(*pubsub.Message) { d.n.Add(1) }
func (d *drops) ThrottlePeer(peer.ID)                 { d.n.Add(1) }
func (d *drops) RejectMessage(_ *pubsub.Message, why string) {
	if why == pubsub.RejectValidationQueueFull || why == pubsub.RejectValidationThrottled {
		d.n.Add(1)
	}
}
func (d *drops) OnNewOutboundStream(peer.ID, protocol.ID) {}
func (d *drops) OnClosedOutboundStream(peer.ID)           {}
func (d *drops) Join(string)                              {}
func (d *drops) Leave(string)                             {}
func (d *drops) Graft(peer.ID, string)                    {}
func (d *drops) Prune(peer.ID, string)                    {}
func (d *drops) ValidateMessage(*pubsub.Message)          {}
func (d *drops) DeliverMessage(*pubsub.Message)           {}
func (d *drops) DuplicateMessage(*pubsub.Message)         {}
func (d *drops) RecvRPC(*pubsub.RPC)                      {}
func (d *drops) SendRPC(*pubsub.RPC, peer.ID)             {}
