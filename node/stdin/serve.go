package stdin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"covey/internal/limit"
	"covey/p2p/wire"
)

// Deadlines on a stream. While nothing comes, signs of life keep the asker's read from timing out.
const (
	requestTimeout = 10 * time.Second
	writeTimeout   = 30 * time.Second
	lifeEvery      = 10 * time.Second
	lifeTimeout    = 30 * time.Second
)

// How many read from this peer at once, in all and per peer. More are told "busy".
const (
	maxReaders        = 512
	maxReadersPerPeer = 128
)

// Net is what this package needs of the network.
type Net interface {
	Handle(protocol string, h func(peer string, c net.Conn))
}

// Config is what a Server needs.
type Config struct {
	Net    Net
	Spools *Spools
	// May tells whether the peer runs the task and may read its stdin; the error is told to it.
	May func(ctx context.Context, peer string, r Request) error
	Log *slog.Logger // nil = silent
}

// Server lets the peers that run tasks read what they are to read.
type Server struct {
	cfg     Config
	ctx     context.Context
	cancel  context.CancelFunc
	readers *limit.Limit
}

// Serve answers Protocol until Close.
func Serve(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, readers: limit.New(maxReaders, maxReadersPerPeer)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	cfg.Net.Handle(Protocol, s.Answer)
	return s
}

// Close takes the handler away, ends what is under way and waits for it.
func (s *Server) Close() {
	s.cfg.Net.Handle(Protocol, nil)
	s.readers.Close(s.cancel)
}

// Answer serves one stream of a peer to its end.
func (s *Server) Answer(peer string, c net.Conn) {
	defer func() { _ = c.Close() }()
	out := wire.NewWriter(c, maxAnswer)
	if !s.readers.Enter(peer) {
		_ = send(c, out, answer{Error: &Error{Code: CodeBusy, Message: "this peer passes too much on at the moment"}})
		return
	}
	defer s.readers.Leave(peer)
	unblock := context.AfterFunc(s.ctx, func() { _ = c.Close() })
	defer unblock()
	err := s.answer(peer, c, out)
	var told *Error
	if errors.As(err, &told) {
		err = send(c, out, answer{Error: told})
	}
	if err != nil {
		s.cfg.Log.Debug("a stdin was not passed on to its end", "peer", peer, "error", err)
	}
}

func (s *Server) answer(peer string, c net.Conn, out *wire.Writer) error {
	_ = c.SetReadDeadline(time.Now().Add(requestTimeout))
	in := wire.NewReader(c, maxRequest)
	var q Request
	if err := in.Read(&q); err != nil {
		return &Error{Code: CodeBad, Message: "that is no request for a stdin"}
	}
	if err := q.check(); err != nil {
		return &Error{Code: CodeBad, Message: err.Error()}
	}
	if err := s.cfg.May(s.ctx, peer, q); err != nil {
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
	return passOn(s.ctx, c, in, out, r)
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
	life := time.NewTicker(lifeEvery)
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
	var told *Error
	if errors.As(err, &told) {
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
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	return out.Send(a)
}
