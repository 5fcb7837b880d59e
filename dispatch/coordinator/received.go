package coordinator

import (
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
)

// onHello opens a session or refuses it. A session the peer still had is taken over: its stream is
// half open.
func (c *Core) onHello(ev SessionOpened) {
	s := &workerSession{conn: ev.Conn, incarnation: ev.Hello.Incarnation, opened: c.clock.Now(), heard: c.clock.Now(), known: ev.Known, away: ev.Away}
	s.grace = c.sessions.graceOf(s)
	p := c.peers.of(ev.Peer)
	s.p = p
	if no := c.sessions.objection(p, ev.Hello); no != nil {
		c.sessions.refuse(s, *no)
		return
	}
	p.fence(ev.Hello.Replaces)
	s.id = fmt.Sprintf("%s.%d", c.epoch, ev.Conn)
	if old := p.session; old != nil {
		if ev.Hello.Session == old.id && old.incarnation == s.incarnation {
			s.id = old.id // resumed: no new registration
		} else {
			p.registered = append(p.registered, c.clock.Now())
		}
		c.sessions.endSession(old, "replaced by a newer session of the same peer")
	} else {
		p.registered = append(p.registered, c.clock.Now())
	}
	s.jobs = map[session.BodyID]int64{}
	s.acks.base, s.acked = ev.Hello.Acked, ev.Hello.Acked
	c.sessions.add(s)
	p.session, p.unanswered, p.stopping, p.parted = s, false, time.Time{}, false
	c.peers.setOffer(p, ev.Hello.Offer, true)
	p.forgetSession()
	c.clock.WakeAt(c.clock.Now().Add(s.grace))
	if p.member.Incarnation == s.incarnation && !p.member.Left {
		c.welcome(s)
		if name := ev.Hello.Offer.Name; name == "" || name == p.member.Name {
			return
		} // it goes by another name now, which everybody is to know
	}
	c.outbox.register(&ledger.Register{Peer: p.id, Incarnation: s.incarnation, Name: ev.Hello.Offer.Name})
}

func (c *Core) welcome(s *workerSession) {
	s.welcomed, s.p.back = true, true
	c.agenda.do(SendDown{Conn: s.conn, Frame: session.Down{Welcome: &session.Welcome{
		Session: s.id, Epoch: c.epoch, Beat: c.cfg.Beat.Milliseconds(), Grace: c.cfg.Grace.Milliseconds(),
		Highest: s.known.Batch, Sum: s.known.Sum, Heard: s.p.heardOf(),
	}}})
	c.peers.review(s.p)
	c.sync(s)
}

// sync sends the Complete set once both sides know what there is.
func (c *Core) sync(s *workerSession) {
	if !s.welcomed || !s.reported {
		return
	}
	c.tasks.giveUpLost(s.p)
	s.synced, s.complete = true, true
	c.agenda.room()
	c.agenda.changed() // what it runs is known now
	c.sessions.touch(s)
}

func (c *Core) onFrame(ev SessionFrame) {
	s := c.sessions.of(ev.Conn)
	f := ev.Frame
	if s == nil {
		if f.Beat != nil { // a half-open link: the worker learns it with its next beat
			c.agenda.do(SendDown{Conn: ev.Conn, Frame: session.Down{Beat: &session.BeatAnswer{N: f.Beat.N}}})
		}
		return
	}
	c.peers.heardFrom(s)
	switch {
	case f.Beat != nil:
		c.sessions.keepPace(s)
		if l := f.Beat.Load; l != nil && l.Check() == nil {
			s.load = l
		}
		c.agenda.do(SendDown{Conn: s.conn, Frame: session.Down{Beat: &session.BeatAnswer{N: f.Beat.N, Held: true}}})
	case s.p.member.Incarnation != s.incarnation: // not registered yet: it cannot speak about tasks of the life before
		s.reported = s.reported || f.Report != nil && f.Report.Done
		if f.Offer != nil && f.Offer.Check() == nil {
			c.peers.setOffer(s.p, *f.Offer, false)
		}
	case f.Report != nil:
		c.onReport(s, f.Report)
	case f.Resync != nil:
		c.sync(s)
	case f.Goodbye != nil:
		s.leaving = true
		c.sessions.touch(s)
	case f.Offer != nil:
		if f.Offer.Check() != nil {
			c.sessions.endSession(s, "an offer that no peer makes")
			return
		}
		c.peers.setOffer(s.p, *f.Offer, false)
		c.agenda.room()
	case f.Dropped != nil:
		for _, t := range f.Dropped.Tasks {
			c.tasks.onDropped(s.p, t)
		}
	}
}

// onReport learns how far the worker's tasks are. A task it lists that is not open any more is not
// in the Complete set, and stopped by that; one it does not list may still be on its way to it, so
// that nothing is concluded.
func (c *Core) onReport(s *workerSession, r *session.Report) {
	for i := range r.Tasks {
		c.tasks.observe(s.p, &r.Tasks[i])
	}
	if r.Done {
		s.reported = true
		c.sync(s)
	}
}

// onBatch takes a worker's signed statuses: ends become decisions, and the batch is acknowledged
// when they all are.
func (c *Core) onBatch(ev SessionBatch) {
	s := c.sessions.of(ev.Conn)
	if s == nil {
		return
	}
	c.peers.heardFrom(s)
	b := &ev.Batch
	if b.Author != s.p.id || b.Incarnation != s.incarnation || !s.welcomed {
		c.sessions.endSession(s, "a batch before Welcome, or of another author or incarnation")
		return
	}
	switch s.acks.begin(b.Number) {
	case ackOld:
		c.sessions.touch(s) // it missed our acknowledgement: say it again
		s.acked = min(s.acked, b.Number-1)
		return
	case ackGap: // ended, so that the worker says again all that is not acknowledged
		c.sessions.endSession(s, "a batch is missing before this one")
		return
	case ackFull:
		c.sessions.endSession(s, "too many batches wait for decisions")
		return
	}
	ends := 0
	for i := range b.Statuses {
		st := &b.Statuses[i]
		if !st.State.Final() {
			if c.tasks.observe(s.p, st) {
				ends++
			}
			continue
		}
		if c.tasks.onEnd(s, st, b.Number) {
			ends++
		}
	}
	c.peers.countEnds(s.p, ends)
	s.acks.received()
	c.sessions.touch(s)
}
