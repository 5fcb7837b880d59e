package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/taskstate"
)

// sessions keeps a session up: dial, serve, back off.
func (w *Loop) sessions(ctx context.Context) {
	var (
		bound   time.Duration
		hint    taskstate.PeerID // from a refusal: tried once
		streams uint64
	)
	for ctx.Err() == nil {
		t, ok := w.target(hint)
		if !ok {
			select { // no peer coordinates: there will be news
			case <-w.news:
			case <-ctx.Done():
			}
			continue
		}
		streams++
		asked := hint != ""
		hint = ""
		end := w.session(ctx, t, streams)
		if ctx.Err() != nil {
			return
		}
		w.cfg.Log.Debug("session ended", "coordinator", t.peer, "err", end.err)
		if end.registered {
			bound = 0
		}
		if end.again && (end.registered || w.changed(t)) {
			continue
		}
		if end.hint != "" && end.hint != t.peer && !asked {
			hint = end.hint
			continue
		}
		bound = nextBound(bound)
		w.pause(ctx, t, end.retryAfter+rand.N(bound))
	}
}

func nextBound(b time.Duration) time.Duration { return min(backoffStep+2*b, backoffMax) }

func (w *Loop) target(hint taskstate.PeerID) (target, bool) {
	peer, epoch, ok := w.cfg.Coordinator()
	if hint != "" {
		return target{peer: hint, epoch: epoch}, true
	}
	return target{peer: peer, epoch: epoch}, ok && peer != ""
}

// changed tells whether the hint names somebody, and not the one dialled last.
func (w *Loop) changed(last target) bool {
	now, ok := w.target("")
	return ok && now != last
}

// pause waits before the next dial; news of another coordinator, or of a connection to this one,
// end it early.
func (w *Loop) pause(ctx context.Context, last target, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for len(w.connected) > 0 {
		<-w.connected // from before: the dial that failed knew of them
	}
	for {
		select {
		case <-t.C:
			return
		case <-w.news:
			if w.changed(last) {
				return
			}
		case p := <-w.connected:
			if p == last.peer {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// session is one stream from its dial to its end.
func (w *Loop) session(ctx context.Context, t target, id uint64) sessionEnd {
	if t.peer != w.cfg.Self && w.cfg.Seated != nil && !w.cfg.Seated(t.peer) {
		return sessionEnd{err: fmt.Errorf("%s holds no seat in the ledger, as far as is known here", t.peer)}
	}
	conn, err := w.dial(ctx, t.peer)
	if err != nil {
		return sessionEnd{err: fmt.Errorf("dial the coordinator %s: %w", t.peer, err)}
	}
	l := newStream(id, conn, w.cfg.Log)
	l.dialled = t
	l.allow = func(d time.Duration) time.Duration { return far.For(w.cfg.Net, t.peer, d) }
	l.lied, l.dialect = w.cfg.Lied, w.cfg.Dialect
	if w.cfg.Load != nil {
		l.load = w.cfg.Load
	}
	defer l.close()
	if !w.announce(ctx, streamEvent{stream: l, up: true}) {
		return sessionEnd{err: ctx.Err()}
	}
	end := w.serve(ctx, t, l)
	w.announce(ctx, streamEvent{stream: l})
	return end
}

// serve runs reader and writer until either ends, and watches for another coordinator.
func (w *Loop) serve(ctx context.Context, t target, l *stream) (end sessionEnd) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{}, 2)
	go func() { l.read(ctx, w.events); done <- struct{}{} }()
	go func() { l.write(ctx); done <- struct{}{} }()
	running := 2
	for running == 2 {
		select {
		case <-ctx.Done():
			l.end(endedBy{why: ctx.Err().Error()})
		case <-l.over:
		case <-done:
			running--
		case <-w.news:
			now, ok := w.target("")
			if ok && now.peer != t.peer && l.olderThan(now.epoch, t.epoch) {
				l.end(endedBy{why: "another peer coordinates now", again: true})
			}
			continue
		}
		break
	}
	l.end(endedBy{why: "the stream ended"})
	cancel()
	l.close()
	for ; running > 0; running-- {
		<-done
	}
	return l.outcome()
}

// dial opens the stream; to this peer itself it is a pipe.
func (w *Loop) dial(ctx context.Context, peer taskstate.PeerID) (net.Conn, error) {
	if peer == w.cfg.Self && w.cfg.Local != nil {
		here, there := net.Pipe()
		w.local.Go(func() { w.cfg.Local(w.cfg.Self, there) }) // ends with the stream
		return here, nil
	}
	ctx, cancel := context.WithTimeout(ctx, far.For(w.cfg.Net, peer, sessionDial))
	defer cancel()
	return w.cfg.Net.Dial(ctx, peer, session.Protocol)
}

// announce tells the owner of a stream; it waits until the owner knows.
func (w *Loop) announce(ctx context.Context, e streamEvent) bool {
	select {
	case w.streams <- e:
		return true
	case <-ctx.Done():
		return false
	}
}
