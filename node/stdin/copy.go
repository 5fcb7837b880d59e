package stdin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/p2p/wire"
)

// Patience is how long a task waits for the peer that has its stdin, while that cannot be reached.
const Patience = time.Minute

// A stream that broke is opened again after a wait that doubles.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 2 * time.Second
)

// Asker reads the stdin of a task from its submitter's peer.
type Asker struct {
	Dial  func(ctx context.Context) (net.Conn, error)
	Ready func()             // called once: the stdin is to be had from where it was asked for
	Put   func([]byte) error // what comes next; nothing: that was all. It may take its time
}

// Copy reads on from an offset to the end. Streams that break are opened again where they broke. An
// *Error is the other peer's word; any other means that it could not be asked for Patience, that
// Put failed, or ctx ended.
func (a Asker) Copy(ctx context.Context, q Request) error {
	var lost time.Time
	ready := a.Ready
	a.Ready = func() { ready(); ready = func() {} }
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		from := q.At
		met, err := a.once(ctx, &q)
		var told *Error
		var put *putError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &put):
			return put.error
		case errors.As(err, &told) && told.Code != CodeBusy:
			return told
		}
		if met || q.At > from || lost.IsZero() {
			lost = time.Now()
		}
		if met {
			wait = retryFirst
		}
		if time.Since(lost) >= Patience {
			return fmt.Errorf("the peer it was submitted to, which has its stdin, could not be reached for %v: %w", Patience, err)
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// putError is what Put ended with.
type putError struct{ error }

// once reads from one stream, and moves q on. met tells whether it was answered.
func (a Asker) once(ctx context.Context, q *Request) (met bool, err error) {
	c, err := a.Dial(ctx)
	if err != nil {
		return false, err
	}
	box := newInbox()
	var reader sync.WaitGroup
	defer reader.Wait()
	defer func() { _ = c.Close() }()
	unblock := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer unblock()
	_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
	out := wire.NewWriter(c, maxRequest)
	buf := make([]byte, MaxPiece)
	reader.Go(func() { box.fill(c) }) // who passes too much on says so without reading what it is asked
	if err := out.Send(*q); err != nil {
		_ = c.Close()
		_, _, said := box.next(buf)
		if told, ok := errors.AsType[*Error](said); ok {
			return false, told
		}
		return false, err
	}
	for {
		n, end, err := box.next(buf)
		if err != nil {
			return met, err
		}
		if !met {
			met = true
			a.Ready()
		}
		if n == 0 && !end {
			continue
		}
		if err := a.Put(buf[:n]); err != nil {
			return met, &putError{err}
		}
		if n == 0 {
			return met, nil
		}
		q.At += int64(n)
		_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
		if err := out.Send(progress{At: q.At}); err != nil {
			return met, err
		}
	}
}

// inbox is what came and was not put yet: a Window at most, since no more is sent before it is said
// to be there. One goroutine fills it, so that signs of life are heard while a task takes its time.
type inbox struct {
	more wake.Signal // there is news

	mu   sync.Mutex
	buf  []byte
	met  bool
	over bool // nothing more comes
	err  error
}

func newInbox() *inbox { return &inbox{more: wake.New()} }

// fill reads until nothing more comes.
func (b *inbox) fill(c net.Conn) {
	in := wire.NewReader(c, maxAnswer)
	for over := false; !over; {
		_ = c.SetReadDeadline(time.Now().Add(limit.LifeTimeout))
		var w answer
		err := in.Read(&w)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a stdin ends with a word
		}
		if err == nil {
			err = w.check()
		}
		if err == nil && w.Error != nil {
			err = w.Error
		}
		over = b.add(w, err)
	}
}

func (b *inbox) add(w answer, err error) (over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.met = true
		if b.buf = append(b.buf, w.Data...); len(b.buf) > Window {
			err = errFrame
		}
	}
	b.over, b.err = w.End || err != nil, err
	b.more.Set()
	return b.over
}

// next waits for what is next, the first time for any word. Nothing and end means that all was
// taken.
func (b *inbox) next(into []byte) (n int, end bool, err error) {
	for {
		b.mu.Lock()
		n = copy(into, b.buf)
		b.buf = append(b.buf[:0], b.buf[n:]...)
		met, over, err := b.met, b.over, b.err
		b.met = false
		b.mu.Unlock()
		switch {
		case n > 0:
			return n, false, nil
		case over:
			return 0, err == nil, err
		case met:
			return 0, false, nil
		}
		<-b.more
	}
}
