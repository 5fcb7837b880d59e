package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/p2p/wire"
)

// StrangerFrame caps what a stranger may send, in bytes.
const StrangerFrame = 4 << 10

// DefaultTimeout bounds one exchange of either protocol, on both sides.
const DefaultTimeout = 10 * time.Second

// Config of Serve; its zero value is usable.
type Config struct {
	Timeout time.Duration // of one exchange; 0 means DefaultTimeout
	Log     *slog.Logger  // nil discards
}

// Serve answers both of the protocols strangers may open: join (through a; nil leaves it unserved)
// and roster (from r). How many streams a stranger may have open at once is the gate's business.
// The returned stop takes the handlers away, ends what is under way and waits for it.
func Serve(n Net, a Admitter, r *Roster, cfg Config) (stop func()) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{admitter: a, roster: r, cfg: cfg, ctx: ctx}
	if a != nil {
		n.Handle(JoinProtocol, s.guard(s.join))
		n.Handle(OldJoinProtocol, s.guard(s.joinOld))
	}
	n.Handle(RosterProtocol, s.guard(s.show))
	return func() {
		n.Handle(JoinProtocol, nil)
		n.Handle(OldJoinProtocol, nil)
		n.Handle(RosterProtocol, nil)
		cancel()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.under.Wait()
	}
}

type server struct {
	admitter Admitter
	roster   *Roster
	cfg      Config
	ctx      context.Context // ends with the server

	mu     sync.Mutex
	closed bool
	under  sync.WaitGroup // exchanges under way
}

// guard gives every exchange a deadline and an end.
func (s *server) guard(h func(ctx context.Context, peer string, r *wire.Reader, w *wire.Writer) error) func(string, net.Conn) {
	return func(peer string, c net.Conn) {
		defer c.Close()
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return
		}
		s.under.Add(1)
		s.mu.Unlock()
		defer s.under.Done()
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
		defer cancel()
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
		if err := c.SetDeadline(time.Now().Add(s.cfg.Timeout)); err != nil {
			return
		}
		if err := h(ctx, peer, wire.NewReader(c, StrangerFrame), wire.NewWriter(c, 0)); err != nil {
			s.cfg.Log.Debug("exchange with a stranger ended", "peer", peer, "error", err)
		}
	}
}

func (s *server) join(ctx context.Context, peer string, r *wire.Reader, w *wire.Writer) error {
	var req JoinRequest
	if err := r.Read(&req); err != nil {
		return err
	}
	a := JoinAnswer{Refusal: &Refusal{Code: Refused}}
	if err := req.Check(); err == nil {
		// Leave time to say that nobody decided in time.
		decide, cancel := context.WithTimeout(ctx, s.cfg.Timeout*9/10)
		a = s.admit(decide, peer, req)
		cancel()
	}
	return writeAnswer(w, a)
}

func (s *server) admit(ctx context.Context, peer string, req JoinRequest) JoinAnswer {
	a, err := s.admitter.Admit(ctx, peer, req)
	var no *Refusal
	switch {
	case errors.As(err, &no):
	case err != nil:
		s.cfg.Log.Warn("a newcomer could not be decided about", "peer", peer, "error", err)
		no = &Refusal{Code: NoCoordinator}
	default:
		no = a.Refusal
	}
	if no == nil {
		s.cfg.Log.Info("a newcomer was admitted", "peer", peer, "name", a.Entry.Name, "roles", a.Entry.Roles)
		return a
	}
	s.cfg.Log.Info("a newcomer was refused", "peer", peer, "code", no.Code)
	return JoinAnswer{Refusal: no.told()}
}

// oldAnswer is the part of version 0.1's answer that says no.
type oldAnswer struct {
	Answer oldRefusal `cbor:"1,keyasint"`
}

type oldRefusal struct {
	Refusal Refusal `cbor:"6,keyasint"`
}

// joinOld tells a newcomer of version 0.1 that it does not understand this one. What it asks is not
// looked at.
func (s *server) joinOld(_ context.Context, peer string, r *wire.Reader, w *wire.Writer) error {
	var asked map[int]any
	_ = r.Read(&asked) // so that it is not cut off while it writes
	s.cfg.Log.Warn("a newcomer of version 0.1 was refused: this version has to be installed there", "peer", peer)
	return w.Send(oldAnswer{oldRefusal{Refusal{
		Code: Refused, Message: "this cluster runs a newer version, which 0.1 does not understand: install that on the machine that wants to join",
	}}})
}
