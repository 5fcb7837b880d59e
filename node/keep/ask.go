package keep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/p2p/wire"
)

// Dialer is what asking needs of the network.
type Dialer interface {
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
}

// Ask has a peer keep something, and returns when it does. moved hears how many bytes came to it;
// it may be nil. The error is a *Refused if the peer said why it does not.
func Ask(ctx context.Context, d Dialer, peer string, r Request, moved func(bytes int64)) error {
	_, err := exchange(ctx, d, peer, r.frame(), moved)
	return err
}

// ErrHungUp means that a peer closed the stream without an answer.
var ErrHungUp = errors.New("it hung up: it may be of a version that does not do this, or not know this peer")

// exchange sends a peer one request and returns its last answer.
func exchange(ctx context.Context, d Dialer, peer string, r request, moved func(bytes int64)) (a answer, err error) {
	c, err := d.Dial(ctx, peer, Protocol)
	if err != nil {
		return a, fmt.Errorf("ask it to keep files: %w", err)
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	a, err = ask(c, r, moved)
	var no *Refused
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case err == nil, errors.As(err, &no):
		return a, err
	case errors.Is(err, io.EOF):
		return a, ErrHungUp
	}
	return a, fmt.Errorf("ask it to keep files: %w", err)
}

func ask(c net.Conn, r request, moved func(bytes int64)) (answer, error) {
	_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
	if err := wire.NewWriter(c, maxRequest).Send(r); err != nil {
		return answer{}, err
	}
	in := wire.NewReader(bufio.NewReaderSize(c, maxFrame), maxFrame)
	for {
		var a answer
		if err := in.Read(&a); err != nil {
			return a, err
		}
		switch {
		case a.Kept, a.Sole != nil:
			return a, nil
		case a.Refused != nil:
			return a, a.Refused
		case a.Going == nil:
			return a, errors.New("its answer says nothing")
		case moved != nil:
			moved(a.Going.Bytes)
		}
	}
}

// Finder asks peers for copies.
type Finder struct {
	Net Dialer
}

// Copies has up to need of the candidates keep a copy, the first ones first. It returns who does,
// and who was asked and does not; nobody is asked any more then.
func (f Finder) Copies(ctx context.Context, r Request, need int, candidates []string) (kept []string, no []Decline) {
	s := NewSearch(need, candidates, time.Now())
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	events, asked := make(chan Event), map[string]context.CancelFunc{}
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for ev := (Event{}); ; {
		out := s.Step(ev, time.Now())
		for _, peer := range out.Drop {
			asked[peer]()
		}
		for _, peer := range out.Ask {
			ctx, drop := context.WithCancel(ctx)
			asked[peer] = drop
			all.Go(func() {
				defer drop()
				f.ask(ctx, peer, r, events)
			})
		}
		if out.Over {
			return s.Kept()
		}
		timer.Reset(time.Until(out.Wake))
		select {
		case ev = <-events:
		case <-timer.C:
			ev = Event{}
		case <-ctx.Done():
			return s.Kept()
		}
	}
}

// ask asks one peer and tells what becomes of it, until ctx ends.
func (f Finder) ask(ctx context.Context, peer string, r Request, events chan<- Event) {
	tell := func(ev Event) {
		select {
		case events <- ev:
		case <-ctx.Done():
		}
	}
	err := Ask(ctx, f.Net, peer, r, func(bytes int64) { tell(Event{Peer: peer, Bytes: bytes}) })
	tell(Event{Peer: peer, Done: true, Err: err})
}
