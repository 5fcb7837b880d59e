package limit

import (
	"context"
	"net"
	"time"
)

// Deadlines on a reader's stream. While there is nothing to send, signs of life keep its read from
// timing out.
const (
	RequestTimeout = 10 * time.Second
	WriteTimeout   = 30 * time.Second
	LifeEvery      = 10 * time.Second
	LifeTimeout    = 30 * time.Second
)

// How many may read at once, in all and per peer. More are told "busy".
const (
	MaxReaders        = 512
	MaxReadersPerPeer = 128
)

// Net is what serving readers needs of the network.
type Net interface {
	Handle(protocol string, h func(peer string, c net.Conn))
}

// Readers serves streams from which peers read what grows slowly.
type Readers struct {
	net      Net
	protocol string
	answer   func(ctx context.Context, peer string, c net.Conn, busy bool)
	ctx      context.Context
	cancel   context.CancelFunc
	inside   *Limit
}

// Serve has each stream of a protocol answered until Close, which ends its context and closes it.
// busy means that there are too many readers, which is all that is to be said.
func Serve(n Net, protocol string, answer func(ctx context.Context, peer string, c net.Conn, busy bool)) *Readers {
	r := &Readers{net: n, protocol: protocol, answer: answer, inside: New(MaxReaders, MaxReadersPerPeer)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	n.Handle(protocol, r.Answer)
	return r
}

// Close takes the handler away, ends what is under way and waits for it.
func (r *Readers) Close() {
	r.net.Handle(r.protocol, nil)
	r.inside.Close(r.cancel)
}

// Answer serves one stream of a peer to its end.
func (r *Readers) Answer(peer string, c net.Conn) {
	defer func() { _ = c.Close() }()
	if !r.inside.Enter(peer) {
		r.answer(r.ctx, peer, c, true)
		return
	}
	defer r.inside.Leave(peer)
	defer context.AfterFunc(r.ctx, func() { _ = c.Close() })()
	r.answer(r.ctx, peer, c, false)
}
