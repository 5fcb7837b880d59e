package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// term is one core with everything around it.
type term struct {
	cfg   Config
	ctx   context.Context
	epoch taskstate.Epoch

	// box has what must not wait for the owner. It is bounded by what fills it: entries of a ledger
	// that this peer itself writes, a verdict per peer, an answer per question.
	box    *mailbox.Box[Event]
	events chan termEvent   // what may: sessions. Full: their readers wait, and so do their workers
	asks   chan func(*Core) // questions
	work   sync.WaitGroup   // proposals, probes, sessions

	grace atomic.Int64 // of the core, nanoseconds: for the readers of sessions

	// For the owner alone.
	core  *Core
	links map[ConnID]*workerStream
	late  []Event // found while effects were carried out
	over  string  // why this core is over
}

// termEvent is an event of a session; the first one brings the link.
type termEvent struct {
	ev   Event
	link *workerStream
}

func (t *term) heard(ev ledger.Event) {
	if ev.Reset {
		t.box.Put(termOver{"the ledger was replaced"})
		return
	}
	t.box.Put(LedgerApplied{Entry: ev.Entry, Results: ev.Results})
}

// termOver ends the core from outside.
type termOver struct{ why string }

func (termOver) isEvent() {}

// loop owns the core: it waits until something has happened, takes all that has, and carries out
// what follows.
func (t *term) loop() string {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var evs []Event
	t.turn(nil)
	for t.over == "" {
		if at := t.core.Wake(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(0, time.Until(at)))
		}
		evs = append(evs[:0], t.late...)
		t.late = t.late[:0]
		if len(evs) == 0 {
			select {
			case <-t.ctx.Done():
				return "the epoch is over"
			case f := <-t.asks:
				f(t.core)
				continue
			case <-timer.C:
			case <-t.box.News():
			case ev := <-t.events:
				evs = t.admit(evs, ev)
			}
		}
		t.turn(t.gather(evs))
	}
	return t.over
}

// gather adds what else has happened meanwhile: first the ledger, so that outcomes never come
// before what they are about.
func (t *term) gather(evs []Event) []Event {
	boxed := t.box.Take()
	for _, ev := range boxed {
		if o, ok := ev.(termOver); ok {
			t.over = o.why
		}
	}
	evs = append(boxed, evs...)
	for range cap(t.events) {
		select {
		case ev := <-t.events:
			evs = t.admit(evs, ev)
		default:
			return evs
		}
	}
	return evs
}

func (t *term) admit(evs []Event, ev termEvent) []Event {
	switch e := ev.ev.(type) {
	case SessionOpened:
		t.links[e.Conn] = ev.link
	case SessionClosed:
		t.drop(e.Conn)
	}
	return append(evs, ev.ev)
}

func (t *term) turn(evs []Event) {
	if t.over != "" {
		return
	}
	effects := t.core.Step(evs, time.Now())
	t.grace.Store(int64(t.core.cfg.Grace))
	for _, e := range effects {
		t.carryOut(e)
	}
}

func (t *term) carryOut(e Effect) {
	switch e := e.(type) {
	case SendDown:
		if l := t.links[e.Conn]; l != nil && !l.send(e.Frame) {
			t.cfg.Log.Warn("session ended: the worker takes in too slowly", "peer", l.peer)
			l.abort()
			t.drop(e.Conn)
			t.late = append(t.late, SessionClosed{Conn: e.Conn})
		}
	case EndSession:
		if l := t.links[e.Conn]; l != nil {
			t.cfg.Log.Debug("session ends", "peer", l.peer, "why", e.Why)
		}
		t.drop(e.Conn)
	case ProposeCommands:
		t.work.Go(func() { t.propose(e.Commands) })
	case ProbePeer:
		t.work.Go(func() {
			ctx, cancel := context.WithTimeout(t.ctx, far.Allow(3*time.Second, t.cfg.Away(e.Peer)))
			defer cancel()
			t.box.Put(PeerProbed{Peer: e.Peer, Failed: t.cfg.Probe(ctx, e.Peer) != nil})
		})
	case StartOver:
		t.over = e.Why
	}
}

// propose has commands decided. One whose fate is unknown ends the core: the next one begins from
// what the ledger then holds.
func (t *term) propose(cmds []ledger.Command) {
	if _, _, err := t.cfg.Ledger.Propose(t.ctx, cmds); err != nil {
		t.box.Put(termOver{"a proposal failed: " + err.Error()})
		return
	}
	t.box.Put(ProposalDone{})
}

// drop lets a stream end after what was queued for it.
func (t *term) drop(conn ConnID) {
	if l := t.links[conn]; l != nil {
		delete(t.links, conn)
		close(l.out)
	}
}

func (t *term) closeAll() {
	for conn, l := range t.links {
		l.abort()
		t.drop(conn)
	}
}

// link is one accepted stream: a reader, which is the handler's own goroutine, and a writer.
type workerStream struct {
	conn ConnID
	peer taskstate.PeerID
	c    net.Conn
	out  chan session.Down // closed by the term's owner: flush and end
	gone chan struct{}     // closed by the reader: nobody listens any more
	once sync.Once
}

// send queues a frame; false if the worker is too slow to take it.
func (l *workerStream) send(f session.Down) bool {
	select {
	case l.out <- f:
		return true
	default:
		return false
	}
}

func (l *workerStream) abort() { l.once.Do(func() { _ = l.c.Close() }) }

// write sends what is queued, and flushes whenever nothing more is. It ends the stream when the
// queue is closed.
func (l *workerStream) write(dialect func() int) {
	defer l.abort()
	w := wire.NewWriter(l.c, 0)
	for {
		select {
		case <-l.gone:
			return
		case f, more := <-l.out:
			if !more {
				_ = w.Flush()
				return
			}
			_ = l.c.SetWriteDeadline(time.Now().Add(writeTimeout))
			f.Speak(dialect())
			if err := w.Write(f); err != nil {
				return
			}
			if len(l.out) == 0 && w.Flush() != nil {
				return
			}
		}
	}
}

// Config sets a Loop up. Ledger, OpenEnvelope and Probe are its ports to the rest of the node.
type Config struct {
	Core   CoreConfig
	Ledger ledger.Ledger
	// OpenEnvelope checks the signature of a batch that came on a peer's session, keeps it for
	// others, and returns what is in it. Called from the session's reader. An error ends the
	// session.
	OpenEnvelope func(peer string, envelope []byte) (taskstate.Batch, error)
	// Vet tells why a peer that says Hello as this start gets no session: another process goes by
	// its identity. Called on the session's own goroutine; may take seconds. Optional.
	Vet func(peer taskstate.PeerID, start starts.Start) error
	// Dialect is what the cluster speaks: frames say nothing above it, and a worker that reads less
	// gets no session. Optional: 1.
	Dialect func() int
	// Known says what is held of the incarnation a worker says Hello with, for its Welcome, here
	// and by others; an error refuses it for now. Called on the session's own goroutine; may take
	// seconds. Optional.
	Known func(ctx context.Context, peer taskstate.PeerID, h *session.Hello) (Known, error)
	// Probe dials a peer and fails if it does not answer. nil: nobody ever answers.
	Probe func(ctx context.Context, peer taskstate.PeerID) error
	// Away measures the round trip to a peer. nil: every peer is near.
	Away func(peer taskstate.PeerID) time.Duration

	SendQueue int // frames that may wait for a slow worker before its session ends: 256
	Log       *slog.Logger
}

const (
	helloTimeout = 5 * time.Second  // a stream without a Hello for so long is closed
	writeTimeout = 10 * time.Second // of one flush
)

func (cfg Config) withDefaults() Config {
	if cfg.SendQueue <= 0 {
		cfg.SendQueue = 256
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Core.Log == nil {
		cfg.Core.Log = cfg.Log
	}
	if cfg.Dialect == nil {
		cfg.Dialect = func() int { return 1 }
	}
	if cfg.Away == nil {
		cfg.Away = func(taskstate.PeerID) time.Duration { return 0 }
	}
	if cfg.Probe == nil {
		cfg.Probe = func(context.Context, taskstate.PeerID) error { return errors.New("no way to probe") }
	}
	cfg.Core = cfg.Core.withDefaults()
	return cfg
}
