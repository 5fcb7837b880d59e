package coordinator

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// term is one core with everything around it.
type term struct {
	coord *Loop
	cfg   Config
	ctx   context.Context
	epoch taskstate.Epoch

	box    eventBox         // what must not wait for the owner: ledger, verdicts, outcomes
	events chan termEvent   // what may: sessions. Full: their readers wait, and so do their workers
	asks   chan func(*Core) // questions
	work   sync.WaitGroup   // proposals, probes, sessions

	grace atomic.Int64 // of the core, nanoseconds: for the readers of sessions

	// For the owner alone.
	core  *Core
	links map[ConnID]*link
	late  []Event // found while effects were carried out
	shown uint64
	over  string // why this core is over
}

// termEvent is an event of a session; the first one brings the link.
type termEvent struct {
	ev   Event
	link *link
}

func (t *term) heard(ev ledger.Event) {
	if ev.Reset {
		t.box.put(termOver{"the ledger was replaced"})
		return
	}
	t.box.put(LedgerApplied{Entry: ev.Entry, Results: ev.Results})
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
			case <-t.box.bell:
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
	boxed := t.box.drain()
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
	effects := t.core.StepAll(evs, time.Now())
	t.grace.Store(int64(t.core.cfg.Grace))
	for _, e := range effects {
		t.carryOut(e)
	}
	if n := t.core.agenda.changes; n != t.shown || t.coord.standings.Load() == nil {
		t.shown = n
		m := maps.Collect(t.core.Standings())
		t.coord.standings.Store(&m)
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
			ctx, cancel := context.WithTimeout(t.ctx, 3*time.Second)
			defer cancel()
			t.box.put(PeerProbed{Peer: e.Peer, Failed: t.cfg.Probe(ctx, e.Peer) != nil})
		})
	case StartOver:
		t.over = e.Why
	}
}

// propose has commands decided. One whose fate is unknown ends the core: the next one begins from
// what the ledger then holds.
func (t *term) propose(cmds []ledger.Command) {
	if _, _, err := t.cfg.Ledger.Propose(t.ctx, cmds); err != nil {
		t.box.put(termOver{"a proposal failed: " + err.Error()})
		return
	}
	t.box.put(ProposalDone{})
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

// eventBox takes events without ever making the sender wait. It is bounded by what fills it:
// entries of a ledger that this peer itself writes, a verdict per peer, an answer per question.
type eventBox struct {
	mu   sync.Mutex
	evs  []Event
	bell chan struct{}
}

func (b *eventBox) put(ev Event) {
	b.mu.Lock()
	b.evs = append(b.evs, ev)
	b.mu.Unlock()
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

func (b *eventBox) drain() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	evs := b.evs
	b.evs = nil
	return evs
}
