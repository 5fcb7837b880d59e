package tasklog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Dialer is what fetching output needs of the network.
type Dialer interface {
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
}

// Server answers other peers' requests.
type Server struct {
	*limit.Readers
	store *Store
	may   MayRead
	log   *slog.Logger
}

// May tells whether a peer may read the output of a task. It may wait for news of the task.
type MayRead func(ctx context.Context, peer string, task taskstate.TaskID) bool

// Serve answers LogsProtocol on n until Close, to those who may. may and log may be nil: then all
// do.
func Serve(n limit.Net, s *Store, may MayRead, log *slog.Logger) *Server {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	srv := &Server{store: s, may: may, log: log}
	srv.Readers = limit.Serve(n, LogsProtocol, srv.handle)
	return srv
}

func (s *Server) handle(ctx context.Context, peer string, c net.Conn, busy bool) {
	out := &sender{turn: make(chan struct{}, 1), c: c, w: wire.NewWriter(c, maxAnswer)}
	if busy {
		_ = out.send(answer{Error: &Error{Code: CodeBusy, Message: "this peer serves too many readers at the moment; try again"}})
		return
	}
	if err := s.answer(ctx, peer, c, out); err != nil {
		s.log.Debug("logs for a peer ended early", "peer", peer, "error", err)
	}
}

// answer reads the one request and answers it.
func (s *Server) answer(ctx context.Context, peer string, c net.Conn, out *sender) error {
	_ = c.SetReadDeadline(time.Now().Add(limit.RequestTimeout))
	var req Request
	if err := wire.NewReader(c, maxRequest).Read(&req); err != nil {
		return errors.Join(err, out.send(answer{Error: &Error{Code: CodeBad, Message: "that is no logs request; is that peer of another version?"}}))
	}
	_ = c.SetReadDeadline(time.Time{}) // the reader may go away at any time, and says nothing else
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer func() { _ = c.Close() }()
	defer cancel()
	helpers.Go(func() { _, _ = c.Read(make([]byte, 1)); cancel() })
	helpers.Go(func() { out.life(ctx) })
	if s.may != nil && !s.may(ctx, peer, req.Task) {
		return out.send(answer{Error: &Error{Code: CodeRefused, Message: "the output of this task is for the peer that submitted its job, and for those with the role admin or read"}})
	}
	err := s.store.Copy(ctx, req, func(ch Chunk) error { return out.send(answer{Chunk: &ch}) })
	if told, ok := errors.AsType[*Error](err); ok {
		return out.send(answer{Error: told})
	}
	return err
}

// sender writes frames, also for the goroutine that sends signs of life. turn holds a token while
// somebody writes: a channel and not a mutex, because who waits on a mutex stops virtual time in
// tests.
type sender struct {
	turn chan struct{}
	c    net.Conn
	w    *wire.Writer
}

func (s *sender) send(a answer) error {
	s.turn <- struct{}{}
	return s.write(a)
}

// write is called by the goroutine that has put the token, and takes it out again.
func (s *sender) write(a answer) error {
	defer func() { <-s.turn }()
	_ = s.c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
	return s.w.Send(a)
}

// life sends signs of life; while something else is being sent, that is one.
func (s *sender) life(ctx context.Context) {
	t := time.NewTicker(limit.LifeEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		select {
		case s.turn <- struct{}{}:
			if s.write(answer{}) != nil {
				return
			}
		default:
		}
	}
}

// Fetch gives f the output of a task on another peer, as Store.Copy does for one of ours. An *Error
// is that peer's word; any other error means that it could not be asked or that the stream broke,
// and a new Fetch may go on at the offsets reached.
func Fetch(ctx context.Context, n Dialer, peer string, req Request, f func(Chunk) error) error {
	if err := req.Validate(); err != nil {
		return &Error{Code: CodeBad, Message: err.Error()}
	}
	c, err := n.Dial(ctx, peer, LogsProtocol)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	unblock := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer unblock()
	_ = c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
	if err := wire.NewWriter(c, maxRequest).Send(req); err != nil {
		var told *Error // an owner that is busy says so and closes, without waiting for the request
		if errors.As(receive(ctx, c, req, f), &told) {
			return told
		}
		return contextFirst(ctx, err)
	}
	return receive(ctx, c, req, f)
}

// receive hands chunks on until every stream has ended. What was not asked for, or does not follow
// what came before, ends it: the reader would take it for output.
func receive(ctx context.Context, c net.Conn, req Request, f func(Chunk) error) error {
	r := wire.NewReader(c, maxAnswer)
	want := expecting(req)
	for len(want) > 0 {
		_ = c.SetReadDeadline(time.Now().Add(limit.LifeTimeout))
		var a answer
		if err := r.Read(&a); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // every stream ends with a word
			}
			return contextFirst(ctx, err)
		}
		switch {
		case a.Error != nil:
			return a.Error
		case a.Chunk != nil:
			if err := want.accept(a.Chunk); err != nil {
				return err
			}
			if err := f(*a.Chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// expected is where the next chunk of each stream that has not ended begins; -1: the owner says, as
// with Tail and Since.
type expected map[string]int64

func expecting(req Request) expected {
	e := make(expected, len(req.Parts))
	for _, p := range req.Parts {
		if e[p.Stream] = p.Offset; p.Offset == 0 && (req.Tail > 0 || req.Since > 0) {
			e[p.Stream] = -1
		}
	}
	return e
}

// accept checks a chunk against what was asked for and moves on.
func (e expected) accept(c *Chunk) error {
	at, open := e[c.Stream]
	if !open || c.Dropped < 0 || at >= 0 && c.Offset-c.Dropped != at || c.Offset < c.Dropped || len(c.Data) > MaxChunk {
		return fmt.Errorf("the peer answered with %d bytes of %.20q at %d, which were not asked for", len(c.Data), c.Stream, c.Offset)
	}
	e[c.Stream] = c.Offset + int64(len(c.Data))
	if c.EOF {
		delete(e, c.Stream)
	}
	return nil
}

func contextFirst(ctx context.Context, err error) error {
	if cerr := ctx.Err(); cerr != nil {
		return cerr
	}
	return err
}
