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
	c, err := d.Dial(ctx, peer, Protocol)
	if err != nil {
		return fmt.Errorf("ask it to keep files: %w", err)
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	err = ask(c, r, moved)
	var no *Refused
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil, errors.As(err, &no):
		return err
	case errors.Is(err, io.EOF):
		return errors.New("it hung up: it may be of a version that keeps no files, or not know this peer")
	}
	return fmt.Errorf("ask it to keep files: %w", err)
}

func ask(c net.Conn, r Request, moved func(bytes int64)) error {
	_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
	w := wire.NewWriter(c, maxFrame)
	if err := w.Send(r.frame()); err != nil {
		return err
	}
	in := wire.NewReader(bufio.NewReaderSize(c, maxFrame), maxFrame)
	for {
		var a answer
		if err := in.Read(&a); err != nil {
			return err
		}
		switch {
		case a.Kept:
			return nil
		case a.Refused != nil:
			return a.Refused
		case a.Going == nil:
			return errors.New("its answer says nothing")
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
