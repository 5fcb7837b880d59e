package stdin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/p2p/wire"
)

// Config is what a Server needs.
type Config struct {
	Net    limit.Net
	Spools *Spools
	// May tells whether the peer runs the task and may read its stdin; the error is told to it.
	May func(ctx context.Context, peer string, r Request) error
	Log *slog.Logger // nil = silent
}

// Server lets the peers that run tasks read what they are to read.
type Server struct {
	*limit.Readers
	cfg Config
}

// Serve answers Protocol until Close.
func Serve(cfg Config) *Server {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg}
	s.Readers = limit.Serve(cfg.Net, Protocol, s.handle)
	return s
}

func (s *Server) handle(ctx context.Context, peer string, c net.Conn, busy bool) {
	out := wire.NewWriter(c, maxAnswer)
	if busy {
		_ = send(c, out, answer{Error: &Error{Code: CodeBusy, Message: "this peer passes too much on at the moment"}})
		return
	}
	err := s.answer(ctx, peer, c, out)
	if told, ok := errors.AsType[*Error](err); ok {
		err = send(c, out, answer{Error: told})
	}
	if err != nil {
		s.cfg.Log.Debug("a stdin was not passed on to its end", "peer", peer, "error", err)
	}
}

func (s *Server) answer(ctx context.Context, peer string, c net.Conn, out *wire.Writer) error {
	_ = c.SetReadDeadline(time.Now().Add(limit.RequestTimeout))
	in := wire.NewReader(c, maxRequest)
	var q Request
	if err := in.Read(&q); err != nil {
		return &Error{Code: CodeBad, Message: "that is no request for a stdin"}
	}
	if err := q.check(); err != nil {
		return &Error{Code: CodeBad, Message: err.Error()}
	}
	if err := s.cfg.May(ctx, peer, q); err != nil {
		return err
	}
	sp, done, err := s.cfg.Spools.find(q.Task.Job)
	if err != nil {
		return err
	}
	defer done()
	r, err := sp.begin(q.At)
	if err != nil {
		return err
	}
	if err := send(c, out, answer{}); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Time{}) // it has nothing to say while it is full
	return passOn(ctx, c, in, out, r)
}

// passOn sends what the reader finds, never more than a window ahead of what was taken.
func passOn(ctx context.Context, c net.Conn, in *wire.Reader, out *wire.Writer, r *reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	took := make(chan int64, 1)
	var acks sync.WaitGroup
	defer acks.Wait()
	defer func() { _ = c.Close() }()
	defer cancel(nil)
	acks.Go(func() { cancel(hear(in, r, took)) })
	life := time.NewTicker(limit.LifeEvery)
	defer life.Stop()
	limit := r.at + Window
	buf := make([]byte, MaxPiece)
	for {
		n, changed, err := r.read(buf, limit)
		switch {
		case errors.Is(err, io.EOF):
			if err := send(c, out, answer{End: true}); err != nil {
				return err
			}
			<-ctx.Done() // it hangs up when it has that
			return nil
		case err != nil:
			return sendLast(c, out, err)
		case n > 0:
			if err := send(c, out, answer{Data: buf[:n]}); err != nil {
				return err
			}
			continue
		}
		select {
		case <-changed:
		case at := <-took:
			limit = max(limit, at+Window)
		case <-life.C:
			if err := send(c, out, answer{}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sendLast tells why there is no more, before the stream is closed.
func sendLast(c net.Conn, out *wire.Writer, err error) error {
	if told, ok := errors.AsType[*Error](err); ok {
		return send(c, out, answer{Error: told})
	}
	return err
}

// hear takes in how far the asker is, until it hangs up.
func hear(in *wire.Reader, r *reader, took chan int64) error {
	for {
		var p progress
		if err := in.Read(&p); err != nil {
			return err
		}
		if err := r.took(p.At); err != nil {
			return err
		}
		select {
		case <-took: // an older word
		default:
		}
		took <- p.At
	}
}

func send(c net.Conn, out *wire.Writer, a answer) error {
	_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
	return out.Send(a)
}
