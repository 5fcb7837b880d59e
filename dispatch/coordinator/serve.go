package coordinator

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/p2p/wire"
)

// ServeSession serves one stream of Protocol: the handler to register with the network. It returns
// when the session is over. While this peer does not coordinate, a worker is refused with a hint
// whom to ask.
func (c *Loop) ServeSession(peer string, conn net.Conn) {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(far.Allow(helloTimeout, c.cfg.Away(peer))))
	r := wire.NewReader(conn, 0)
	var first session.Up
	if err := r.Read(&first); err != nil || first.Hello == nil {
		c.cfg.Log.Debug("a session stream did not begin with Hello", "peer", peer, "err", err)
		return
	}
	if c.leads() && c.cfg.Vet != nil {
		if err := c.cfg.Vet(peer, first.Hello.Start); err != nil {
			c.refuse(conn, session.Refuse{Code: session.RefuseCopied, Message: err.Error(), RetryAfter: copiedRetry.Milliseconds()})
			return
		}
	}
	if d := c.cfg.Dialect(); max(1, first.Hello.Dialect) < d && c.leads() {
		c.refuse(conn, session.Refuse{Code: session.RefuseDialect, Message: session.TooOld(max(1, first.Hello.Dialect), d), RetryAfter: dialectRetry.Milliseconds()})
		return
	}
	t := c.join()
	if t == nil {
		hint, _, _ := c.cfg.Ledger.Coordinator()
		c.refuse(conn, session.Refuse{Code: session.RefuseNotCoordinator, Message: "this peer does not coordinate", Coordinator: hint})
		return
	}
	defer t.work.Done()
	opened := SessionOpened{Peer: peer, Hello: *first.Hello, Away: c.cfg.Away(peer)}
	if c.cfg.Known != nil {
		var err error
		if opened.Known, err = c.cfg.Known(t.ctx, peer, first.Hello); err != nil {
			c.refuse(conn, session.Refuse{Code: session.RefuseUnheard, Message: err.Error(), RetryAfter: unheardRetry.Milliseconds()})
			return
		}
	}
	l := &workerStream{conn: ConnID(c.conns.Add(1)), peer: peer, c: conn, out: make(chan session.Down, c.cfg.SendQueue), gone: make(chan struct{})}
	defer context.AfterFunc(t.ctx, l.abort)() // the term ends its sessions, known to its owner yet or not
	var writer sync.WaitGroup
	writer.Go(func() { l.write(c.cfg.Dialect) })
	opened.Conn = l.conn
	if t.post(termEvent{opened, l}) {
		t.read(l, r)
		t.post(termEvent{ev: SessionClosed{Conn: l.conn}})
	}
	close(l.gone)
	l.abort()
	writer.Wait()
}

// join counts a session in, so that Run waits for it; nil while no peer coordinates here.
func (c *Loop) join() *term {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term == nil || c.term.ctx.Err() != nil {
		return nil
	}
	c.term.work.Add(1)
	return c.term
}

// unheardRetry is when a worker may ask again of which too few say what they remember.
const unheardRetry = 500 * time.Millisecond

// copiedRetry is when a worker of which there are two may ask again.
const copiedRetry = 2 * time.Second

// dialectRetry is when one that reads too little may ask again: it takes a person to change that.
const dialectRetry = 10 * time.Second

func (c *Loop) leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term != nil
}

func (c *Loop) refuse(conn net.Conn, no session.Refuse) {
	_ = conn.SetWriteDeadline(time.Now().Add(helloTimeout))
	_ = wire.NewWriter(conn, 0).Send(session.Down{Refuse: &no})
}

// post hands an event to the owner, waiting while it is busy; false if the term is over.
func (t *term) post(ev termEvent) bool {
	select {
	case t.events <- ev:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// read turns frames into events until the stream or the term ends. The core ends a session that is
// silent; the deadline is for the case that nobody else does.
func (t *term) read(l *workerStream, r *wire.Reader) {
	for {
		_ = l.c.SetReadDeadline(time.Now().Add(2 * far.Allow(time.Duration(t.grace.Load()), t.cfg.Away(l.peer))))
		var up session.Up
		if err := r.Read(&up); err != nil {
			t.cfg.Log.Debug("session stream ended", "peer", l.peer, "err", err)
			return
		}
		var ev Event = SessionFrame{Conn: l.conn, Frame: up}
		switch {
		case up.Hello != nil:
			t.cfg.Log.Warn("session ended: a second Hello", "peer", l.peer)
			return
		case up.Batch != nil:
			b, err := t.cfg.OpenEnvelope(l.peer, up.Batch)
			if err != nil {
				t.cfg.Log.Warn("session ended: a batch cannot be opened", "peer", l.peer, "err", err)
				return
			}
			ev = SessionBatch{Conn: l.conn, Batch: b}
		}
		if !t.post(termEvent{ev: ev}) {
			return
		}
	}
}
