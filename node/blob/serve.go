package blob

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/wire"
)

// MaxPullers is how many streams a source gives bytes to at once, and how many of one peer.
const (
	MaxPullers        = 8
	maxPullersPerPeer = 2
)

const (
	placeTime = 5 * time.Second // a place among the pullers is given up when nothing is taken for so long
	idleTime  = time.Minute     // and the stream when nothing is asked either
	maxBad    = 16              // complaints of one stream: each costs the hash of a piece
)

// Shelf is where a source finds blobs.
type Shelf interface {
	// Have says what is here of a blob, at once; nil: nothing.
	Have(root piece.Root) (size int64, has *piece.Bitmap)
	// Open opens what is here of one.
	Open(root piece.Root) (Copy, error)
}

// Copy is a blob that is read from.
type Copy interface {
	Size() int64
	Proof() (piece.Proof, error)
	// Raw reads bytes that are not checked.
	Raw(b []byte, off int64) (int, error)
	// Verify checks a piece; one that is wrong is not here any more.
	Verify(i int) error
	Close() error
}

// ServerConfig is what a server may be told.
type ServerConfig struct {
	// Admitted tells whether a peer is a member. nil: everybody is.
	Admitted func(peer string) bool
	// May tells whether a peer may have a blob; of others it hears that it is not here. nil: all
	// may.
	May func(peer string, root piece.Root) bool
	Log *slog.Logger
}

// Server answers other peers' questions.
type Server struct {
	*limit.Readers
	cfg     ServerConfig
	shelf   Shelf
	pullers *limit.Limit
}

// Serve answers Protocol on n until Close.
func Serve(n limit.Net, shelf Shelf, cfg ServerConfig) *Server {
	if cfg.Admitted == nil {
		cfg.Admitted = func(string) bool { return true }
	}
	if cfg.May == nil {
		cfg.May = func(string, piece.Root) bool { return true }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, shelf: shelf, pullers: limit.New(MaxPullers, maxPullersPerPeer)}
	s.Readers = limit.Serve(n, Protocol, s.handle)
	return s
}

func (s *Server) handle(ctx context.Context, peer string, c net.Conn, busy bool) {
	if !s.cfg.Admitted(peer) {
		return // not a word
	}
	r, w := bufio.NewReaderSize(c, maxQuestion), bufio.NewWriterSize(c, maxQuestion)
	t := &talk{s: s, peer: peer, c: c, in: wire.NewReader(r, maxQuestion), raw: w, out: wire.NewWriter(w, maxAnswer)}
	defer t.close()
	if busy {
		_ = t.say(answer{Error: errBusy}, nil)
		_ = w.Flush()
		return
	}
	if err := t.run(ctx); err != nil && !errors.Is(err, io.EOF) {
		s.cfg.Log.Debug("files for a peer ended early", "peer", peer, "error", err)
	}
}

var (
	errBusy   = &Error{CodeBusy, "it gives files to as many peers as it does at once"}
	errAbsent = &Error{CodeAbsent, "it does not have that"}
	errBad    = &Error{CodeBad, errQuestion.Error()}
)

// talk is one stream.
type talk struct {
	s    *Server
	peer string
	c    net.Conn
	in   *wire.Reader
	out  *wire.Writer // on raw
	raw  *bufio.Writer

	puller bool
	took   time.Time  // when the last answer went to a puller
	root   piece.Root // of copy
	copy   Copy       // nil: none is open
	proof  piece.Proof
	buf    []byte
	bad    int
}

func (t *talk) close() {
	t.give()
	t.shut()
}

// give gives the place among the pullers to others.
func (t *talk) give() {
	if t.puller {
		t.puller = false
		t.s.pullers.Leave(t.peer)
	}
}

func (t *talk) shut() {
	if t.copy != nil {
		_ = t.copy.Close()
	}
	t.copy, t.proof, t.buf = nil, nil, nil
}

// run answers one question after the other.
func (t *talk) run(ctx context.Context) error {
	idle := time.Duration(0)
	for ctx.Err() == nil {
		if t.in.Buffered() == 0 {
			if err := t.raw.Flush(); err != nil {
				return err
			}
		}
		_ = t.c.SetReadDeadline(time.Now().Add(placeTime))
		var q question
		err := t.in.Read(&q)
		if errors.Is(err, os.ErrDeadlineExceeded) && idle < idleTime {
			idle += placeTime
			t.give()
			t.shut()
			continue
		}
		idle = 0
		if errors.Is(err, wire.ErrMalformed) || err == nil && q.validate() != nil {
			return errors.Join(errQuestion, t.say(answer{Error: errBad}, nil), t.raw.Flush())
		}
		if err != nil {
			return err
		}
		if !t.s.cfg.Admitted(t.peer) {
			return errors.New("it is not admitted any more")
		}
		if err := t.answer(&q); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// say sends an answer and what follows it.
func (t *talk) say(a answer, raw []byte) error {
	_ = t.c.SetWriteDeadline(time.Now().Add(limit.WriteTimeout))
	a.Raw = int64(len(raw))
	if err := t.out.Write(a); err != nil {
		return err
	}
	_, err := t.raw.Write(raw)
	return err
}

func (t *talk) answer(q *question) error {
	if q.Have != nil {
		if t.puller && time.Since(t.took) >= placeTime { // it waits for others, who may wait for its place
			t.give()
			t.shut()
		}
		return t.say(answer{Held: t.have(q.Have)}, nil)
	}
	if !t.puller && !t.s.pullers.Enter(t.peer) {
		return t.say(answer{Error: errBusy}, nil)
	}
	t.puller = true
	defer func() { t.took = time.Now() }()
	var raw []byte
	var err error
	switch {
	case q.Proof != nil:
		raw, err = t.values(q.Proof)
	case q.Get != nil:
		raw, err = t.bytes(q.Get)
	default:
		err = t.verify(q.Bad)
	}
	if err != nil {
		var told *Error
		if !errors.As(err, &told) {
			t.s.cfg.Log.Warn("a blob cannot be read", "error", err)
			told = &Error{Code: CodeFailed, Message: "it cannot read its copy"}
		}
		return t.say(answer{Error: told}, nil)
	}
	return t.say(answer{}, raw)
}

// have leaves out what does not fit into one answer.
func (t *talk) have(roots [][]byte) []held {
	out, maps := make([]held, len(roots)), 0
	for i, r := range roots {
		size, has := t.s.shelf.Have(piece.Root(r))
		if has == nil || has.Have() == 0 || !t.s.cfg.May(t.peer, piece.Root(r)) {
			continue
		}
		if b := has.Bytes(); maps+len(b) <= maxMaps {
			out[i] = held{size, b}
			maps += len(b)
		}
	}
	return out
}

// open opens a blob, unless it is the one that is open.
func (t *talk) open(s *span) error {
	if root := s.root(); t.copy == nil || t.root != root {
		t.shut()
		if !t.s.cfg.May(t.peer, root) {
			return errAbsent
		}
		c, err := t.s.shelf.Open(root)
		if err != nil {
			return errAbsent
		}
		t.root, t.copy = root, c
	}
	return nil
}

func (t *talk) values(s *span) ([]byte, error) {
	if err := t.open(s); err != nil {
		return nil, err
	}
	if t.proof == nil {
		proof, err := t.copy.Proof()
		if err != nil {
			return nil, err
		}
		t.proof = proof
	}
	if s.At+s.N > int64(len(t.proof)) {
		return nil, errAbsent
	}
	out := make([]byte, 0, s.N*valueSize)
	for _, v := range t.proof[s.At : s.At+s.N] {
		out = append(out, v[:]...)
	}
	return out, nil
}

func (t *talk) bytes(s *span) ([]byte, error) {
	if err := t.open(s); err != nil {
		return nil, err
	}
	if s.At+s.N > t.copy.Size() {
		return nil, errAbsent
	}
	if t.buf == nil {
		t.buf = make([]byte, min(MaxRead, t.copy.Size()))
	}
	b := t.buf[:s.N]
	if n, err := t.copy.Raw(b, s.At); n < len(b) {
		t.shut() // it may be that the copy has become another, as when a piece was forgotten
		return nil, errors.Join(errAbsent, err)
	}
	return b, nil
}

func (t *talk) verify(s *span) error {
	if t.bad++; t.bad > maxBad {
		return errBad
	}
	if err := t.open(s); err != nil {
		return err
	}
	err := t.copy.Verify(int(s.At))
	t.shut()
	if err != nil {
		t.s.cfg.Log.Warn("a peer says that a piece is wrong, and it is", "blob", t.root, "peer", t.peer, "error", err)
		return errAbsent
	}
	return nil
}
