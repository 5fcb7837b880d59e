package sim

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/node/highwater"
	"github.com/coveyproject/covey/taskstate"
)

// term is one coordinator's core with everything around it, as coordinator.Loop drives it.
type term struct {
	l     *life
	lead  *leadership
	core  *coordinator.Core
	since time.Duration

	box    []coordinator.Event // ledger, verdicts, outcomes
	in     []coordinator.Event // sessions
	late   []coordinator.Event
	timer  time.Duration // a turn is planned for then; 0 = none
	links  map[coordinator.ConnID]*door
	over   bool
	wait   time.Duration                      // before the next core, should this one start over
	probes map[taskstate.PeerID]time.Duration // failed probes
}

// door is the coordinator's end of a session stream.
type door struct {
	link  *link
	conn  coordinator.ConnID
	peer  *peer
	term  *term
	heard time.Duration
	early []session.Up // came before it was known what others remember of the worker
	asked *term        // who waits for that
}

const (
	startOverFirst = 100 * time.Millisecond
	startOverMost  = 5 * time.Second
)

// coordinate begins a core for the epoch this peer leads in.
func (l *life) coordinate(lead *leadership, wait time.Duration) {
	if l.leading != lead {
		return
	}
	w := l.w
	t := &term{l: l, lead: lead, since: w.now(), links: map[coordinator.ConnID]*door{}, wait: wait, probes: map[taskstate.PeerID]time.Duration{}}
	cfg := coordinator.CoreConfig{Self: l.p.id, Seed: w.cfg.Seed, MaxAhead: 8, Read: l.replica.Read, Heard: l.table.Get}
	if w.cfg.Seed%3 == 0 {
		cfg.FrameBudget = 400 // sets come in many frames
	}
	if w.cfg.Break == BreakPatient {
		cfg.StartWithin = 24 * time.Hour
	}
	if w.cfg.Seed%4 == 0 {
		cfg.Outstanding, cfg.MaxAhead, cfg.Pipeline = 5+3*mostLast, 2, 1 // what lasts leaves room for five
	}
	if w.cfg.Seed%5 == 0 {
		cfg.MaxAhead, cfg.AheadWindow = 0, 500*time.Millisecond
	}
	l.replica.Read(func(st *ledger.State) { t.core = coordinator.NewCore(cfg, lead.epoch, st, l.mono()) })
	l.term = t
	for n, v := range l.views {
		if v.verdict != verdict.None {
			t.box = append(t.box, coordinator.PeerVerdict{Peer: w.peers[n].id, Verdict: v.verdict, Since: birth.Add(v.since), Never: v.never})
		}
	}
	if w.tracing() {
		w.tracef("%s coordinates in epoch %s from index %d", l.p.id, lead.epoch, l.replica.Applied())
	}
	t.plan(0)
}

// put hears what must not wait for the sessions.
func (t *term) put(ev coordinator.Event) {
	if !t.over {
		t.box = append(t.box, ev)
		t.soon()
	}
}

// post hears a session.
func (t *term) post(ev coordinator.Event) {
	if !t.over {
		t.in = append(t.in, ev)
		t.soon()
	}
}

func (t *term) soon() {
	w := t.l.w
	d := time.Duration(w.rng.Int64N(int64(time.Duration(w.temper.turn) * time.Millisecond)))
	if w.net.slow[t.l.p.n] > 0 && w.chance(0.05) {
		d = w.ms(1, 300)
	}
	t.plan(d)
}

// plan sees to it that a turn comes no later than that.
func (t *term) plan(d time.Duration) {
	at := max(1, t.l.w.now()+d)
	if t.timer != 0 && t.timer <= at {
		return
	}
	t.timer = at
	t.l.after(d, func() {
		if t.timer == at && !t.over {
			t.timer = 0
			t.turn()
		}
	})
}

// turn is one step of the core with whatever has gathered.
func (t *term) turn() {
	l := t.l
	evs := slices.Concat(t.box, t.late, t.in)
	t.box, t.late, t.in = nil, nil, nil
	for _, ev := range evs {
		if _, ok := ev.(termOver); ok {
			t.end("a proposal failed", true)
			return
		}
	}
	evs = slices.DeleteFunc(evs, func(ev coordinator.Event) bool {
		c, ok := ev.(coordinator.SessionClosed)
		return ok && t.forget(c.Conn)
	})
	for _, e := range t.core.Step(evs, l.mono()) {
		if t.carryOut(e); t.over {
			return
		}
	}
	if len(t.late) > 0 {
		t.plan(0)
	}
	if at := t.core.Wake(); !at.IsZero() {
		t.plan(max(0, at.Sub(l.mono())))
	}
}

// forget drops the door of a closed stream; the event is passed on all the same.
func (t *term) forget(conn coordinator.ConnID) bool {
	delete(t.links, conn)
	return false
}

func (t *term) carryOut(e coordinator.Effect) {
	l := t.l
	w := l.w
	switch e := e.(type) {
	case coordinator.SendDown:
		if d := t.links[e.Conn]; d != nil {
			t.send(d, e.Frame)
		}
	case coordinator.EndSession:
		if d := t.links[e.Conn]; d != nil {
			delete(t.links, e.Conn)
			d.link.close()
			if w.tracing() {
				w.tracef("%s ends the session %d of %s: %s", l.p.id, d.conn, d.peer.id, e.Why)
			}
		}
		if w.cfg.Break == BreakReplaceAtOnce {
			t.panic(e.Conn)
		}
	case coordinator.ProposeCommands:
		w.check.proposed(t, e.Commands)
		w.quorum.propose(l, spoil(w, e.Commands), func(_ []ledger.Result, ok bool) {
			switch {
			case l.term != t:
			case ok:
				t.put(coordinator.ProposalDone{})
			default:
				t.put(termOver{})
			}
		})
	case coordinator.ProbePeer:
		t.probe(w.byID[e.Peer])
	case coordinator.StartOver:
		w.stats.StartOvers++
		w.check.startedOver(t, e.Why)
		t.end(e.Why, true)
	}
}

// termOver ends a core whose proposal failed.
type termOver struct{ coordinator.TimePassed }

// panic is what a coordinator does that gives everything up because of one lost session.
func (t *term) panic(conn coordinator.ConnID) {
	for _, p := range t.l.w.peers {
		t.put(coordinator.PeerVerdict{Peer: p.id, Verdict: verdict.Dead, Since: birth.Add(-time.Hour)})
	}
}

func (t *term) send(d *door, f session.Down) {
	w := t.l.w
	if a := f.Assignments; a != nil && w.tracing() {
		w.tracef("%s to %s: set %d of %d (complete %t, more %t): %d grants, stop %v, recall %v",
			t.l.p.id, d.peer.id, a.ResultsIn, a.AppliesTo, a.Complete, a.More, len(a.Grants), a.Stop, a.Recall)
	}
	if a := f.Assignments; a != nil && !a.Complete && len(a.Grants) > 0 && t.l.p.misleads > 0 && w.chance(0.2) {
		f.Assignments = w.twist(a)
	}
	if f.Ack != nil && w.cfg.Break == BreakNoAck {
		return
	}
	if a := f.Assignments; a != nil && !a.Complete && !w.calm {
		switch { // streams do neither; the protocol bears it all the same, as long as something follows
		case w.chance(0.01):
			t.l.after(w.ms(0, 3000), d.link.abort)
			return
		case w.chance(0.02):
			d.link.send(copyDown(w, f))
		}
	}
	d.link.send(copyDown(w, f))
}

func (t *term) probe(p *peer) {
	w := t.l.w
	d, failed := w.ms(0, 50), false
	if !w.net.both(t.l.p, p) || !p.up() || p.frozen > w.now() {
		d, failed = w.ms(1, 3000), true
	}
	t.l.after(d, func() {
		if failed {
			t.probes[p.id] = w.now()
		}
		t.put(coordinator.PeerProbed{Peer: p.id, Failed: failed})
	})
}

// end closes everything. again starts a new core after a while, if the peer still leads.
func (t *term) end(why string, again bool) {
	if t.over {
		return
	}
	t.over = true
	l := t.l
	if l.term == t {
		l.term = nil
	}
	l.w.tracef("%s no longer drives epoch %s: %s", l.p.id, t.lead.epoch, why)
	conns := make([]coordinator.ConnID, 0, len(t.links))
	for c := range t.links {
		conns = append(conns, c)
	}
	slices.Sort(conns)
	for _, c := range conns {
		t.links[c].link.abort()
	}
	if again {
		wait := min(2*max(t.wait, startOverFirst/2), startOverMost)
		l.after(wait, func() { l.coordinate(t.lead, wait) })
	}
}

// heard is the ledger's observer.
func (l *life) heard(ev ledger.Event) {
	if t := l.term; t != nil {
		if ev.Reset {
			t.put(termOver{})
		} else {
			t.put(coordinator.LedgerApplied{Entry: ev.Entry, Results: ev.Results})
		}
	}
	if !ev.Reset && len(ev.Entry.Commands) > 0 && ev.Entry.Commands[0].Lead != nil {
		l.hear(hint{ev.Entry.Epoch, l.w.byID[ev.Entry.By]})
	}
}

// accept serves one session stream.
func (l *life) accept(x *link) {
	d := &door{link: x, peer: x.other.peer, heard: l.w.now()}
	x.recv = func(v any) { l.serve(d, v.(session.Up)) }
	x.lost = func() { l.closed(d) }
}

func (l *life) serve(d *door, u session.Up) {
	d.heard = l.w.now()
	switch {
	case d.asked != nil && d.term == nil:
		d.early = append(d.early, u)
	case u.Hello != nil && d.term == nil:
		if l.term == nil {
			no := &session.Refuse{Code: session.RefuseNotCoordinator, Message: "this peer does not coordinate"}
			if l.hint.peer != nil {
				no.Coordinator = l.hint.peer.id
			}
			d.link.send(session.Down{Refuse: no})
			d.link.close()
			return
		}
		d.asked = l.term
		d.guard()
		l.inquire(d, u.Hello)
	case d.term == nil || d.term.over:
		d.link.abort()
	case u.Batch != nil:
		env, b, err := l.w.openEnvelope(u.Batch)
		if err != nil {
			l.w.fail("bug", "%s cannot open a batch of %s: %v", l.p.id, d.peer.id, err)
			return
		}
		l.keep(env, b)
		d.term.post(coordinator.SessionBatch{Conn: d.conn, Batch: b})
	default:
		if u.Resync != nil {
			l.w.stats.Resyncs++
		}
		d.term.post(coordinator.SessionFrame{Conn: d.conn, Frame: u})
	}
}

// inquire asks all who hold a seat what they remember of a worker that says Hello.
func (l *life) inquire(d *door, h *session.Hello) {
	w, t := l.w, d.asked
	c := highwater.SessionRequest{Resumes: h.Session != "", Last: h.Last, Seated: d.peer.voter && d.peer != l.p}
	l.replica.Read(func(st *ledger.State) {
		m, _ := st.Member(d.peer.id)
		c.Registered = m.Incarnation == h.Incarnation
	})
	seats := 0
	for _, o := range w.peers {
		if o.voter {
			seats++
		}
	}
	q := highwater.Inquire(c, l.known(d.peer, h.Incarnation), seats, l.mono())
	over := false
	var look func()
	look = func() {
		next := q.Next(l.mono())
		switch {
		case over:
		case next.IsZero():
			over = true
			best, ok := q.Outcome()
			l.open(d, h, best, ok)
		default:
			l.after(next.Sub(l.mono()), look)
		}
	}
	for _, o := range w.peers {
		if !q.Asks() || !o.voter || o == l.p || o == d.peer {
			continue
		}
		back, reached := w.ms(1, 3000), w.net.both(l.p, o) && o.up() && o.frozen <= w.now()
		if reached {
			back = w.net.delay(l.p, o) + w.net.delay(o, l.p)
		}
		there := o.life
		l.after(back, func() {
			if t.over || over {
				return
			}
			if reached && !there.dead {
				q.Told(there.known(d.peer, h.Incarnation))
			} else {
				q.Silent()
			}
			look()
		})
	}
	look()
}

// open begins a session, once it is known what is remembered of the worker.
func (l *life) open(d *door, h *session.Hello, best highwater.Remembered, ok bool) {
	t := d.asked
	switch {
	case !d.link.open || d.term != nil:
		return
	case t.over || l.term != t:
		d.link.abort()
		return
	case !ok:
		d.link.send(session.Down{Refuse: &session.Refuse{Code: session.RefuseUnheard, Message: "too few say what they remember"}})
		d.link.close()
		return
	}
	l.conns++
	l.w.stats.Sessions++
	d.conn, d.term = l.conns, t
	t.links[d.conn] = d
	delete(t.probes, d.peer.id)
	t.post(coordinator.SessionOpened{Conn: d.conn, Peer: d.peer.id, Hello: *h, Known: coordinator.Known{Batch: best.Number, Sum: best.Sum}})
	for _, u := range d.early {
		l.serve(d, u)
	}
	d.early = nil
}

// guard is the read deadline of the session's reader.
func (d *door) guard() {
	l := d.link.life
	const limit = 6 * time.Second
	l.after(max(time.Millisecond, d.heard+limit-l.w.now()), func() {
		switch {
		case !d.link.open:
		case l.w.now()-d.heard < limit:
			d.guard()
		default:
			d.link.abort()
			l.closed(d)
		}
	})
}

func (l *life) closed(d *door) {
	if d.term != nil && !d.term.over {
		d.term.post(coordinator.SessionClosed{Conn: d.conn})
	}
	d.link.abort()
}
