package highwater

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Protocol asks a member what it remembers of a worker.
const Protocol = "/covey/heard/1"

const (
	askCap    = 1 << 10
	askTime   = 5 * time.Second // of one stream
	askedAll  = 256             // at once
	askedEach = 128
)

type ask struct {
	Peer        taskstate.PeerID      `cbor:"1,keyasint"`
	Incarnation taskstate.Incarnation `cbor:"2,keyasint"`
}

// AskerConfig is what an Asker is made of.
type AskerConfig struct {
	Self  taskstate.PeerID
	Dial  func(ctx context.Context, peer, protocol string) (net.Conn, error)
	Net   any                       // measures round trips, if it can; see package far
	Seats func() []taskstate.PeerID // those that vote, as far as is known here
	Known func(peer taskstate.PeerID, inc taskstate.Incarnation) Remembered
}

// Asker asks those who hold a seat, and answers them.
type Asker struct {
	cfg     AskerConfig
	serving *limit.Limit
}

// NewAsker makes an Asker.
func NewAsker(cfg AskerConfig) *Asker {
	return &Asker{cfg: cfg, serving: limit.New(askedAll, askedEach)}
}

// Seats are those who are asked.
func (a *Asker) Seats() []taskstate.PeerID { return a.cfg.Seats() }

// Of is what is remembered of a worker's incarnation, here and by the others. It fails if fewer
// than a majority of the seats say anything, and takes no longer than patience.
func (a *Asker) Of(ctx context.Context, peer taskstate.PeerID, inc taskstate.Incarnation, c SessionRequest) (Remembered, error) {
	seats := a.Seats()
	c.Seated = peer != a.cfg.Self && slices.Contains(seats, peer)
	q := Inquire(c, a.cfg.Known(peer, inc), len(seats), time.Now())
	if !q.Asks() {
		w, _ := q.Outcome()
		return w, nil
	}
	for _, s := range seats {
		q.patience = max(q.patience, far.For(a.cfg.Net, s, patience))
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithTimeout(ctx, q.patience)
	defer cancel()
	answers := make(chan func(), len(seats))
	for _, s := range seats {
		if s == a.cfg.Self || s == peer {
			continue
		}
		asking.Go(func() {
			w, err := a.one(ctx, s, ask{Peer: peer, Incarnation: inc})
			answers <- func() {
				if err == nil {
					q.Told(w)
				} else {
					q.Silent()
				}
			}
		})
	}
	for next := q.Next(time.Now()); !next.IsZero() && ctx.Err() == nil; next = q.Next(time.Now()) {
		t := time.NewTimer(time.Until(next))
		select {
		case take := <-answers:
			take()
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
	w, ok := q.Outcome()
	if !ok {
		return w, fmt.Errorf("fewer than a majority of %d seats say what they remember of this worker", len(seats))
	}
	return w, nil
}

func (a *Asker) one(ctx context.Context, peer taskstate.PeerID, q ask) (w Remembered, err error) {
	c, err := a.cfg.Dial(ctx, peer, Protocol)
	if err != nil {
		return w, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err = wire.NewWriter(c, askCap).Send(q); err == nil {
		err = wire.NewReader(c, askCap).Read(&w)
	}
	return w, err
}

// Serve answers one stream.
func (a *Asker) Serve(peer string, c net.Conn) {
	defer c.Close()
	if !a.serving.Enter(peer) {
		return
	}
	defer a.serving.Leave(peer)
	_ = c.SetDeadline(time.Now().Add(askTime))
	var q ask
	if err := wire.NewReader(c, askCap).Read(&q); err == nil {
		_ = wire.NewWriter(c, askCap).Send(a.cfg.Known(q.Peer, q.Incarnation))
	}
}
