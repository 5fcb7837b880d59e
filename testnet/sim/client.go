package sim

import (
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// client keeps a worker's session up, as the worker's shell does: dial, greet, beat, back off.
type client struct {
	l      *life
	bound  time.Duration
	hinted *peer // from a refusal: tried once
	asked  bool
	links  uint64

	at      *peer // whom it dials or dialled
	epoch   taskstate.Epoch
	state   clientState
	turn    uint64 // counts changes of state: what was planned for an earlier one is void
	link    *link
	id      uint64
	welcome *session.Welcome
	since   time.Duration // of the Welcome
	heard   time.Duration
	beats   uint64
	ending  bool
}

type clientState uint8

const (
	clientIdle clientState = iota
	clientDialing
	clientServing
	clientPausing
)

const (
	backoffStep  = 100 * time.Millisecond
	backoffMost  = 8 * time.Second
	dialLimit    = 3 * time.Second
	welcomeLimit = 5 * time.Second
	retryAtMost  = time.Minute
)

// sessionEnd is why a session is over.
type sessionEnd struct {
	why        string
	again      bool
	hint       *peer
	retryAfter time.Duration
}

func (c *client) become(s clientState) { c.state, c.turn = s, c.turn+1 }

// later calls f if the client is still in the same state then.
func (c *client) later(d time.Duration, f func()) {
	turn := c.turn
	c.l.after(d, func() {
		if c.turn == turn {
			f()
		}
	})
}

// next dials the coordinator.
func (c *client) next() {
	l := c.l
	c.at, c.epoch = l.hint.peer, l.hint.epoch
	c.asked = c.hinted != nil
	if c.hinted != nil {
		c.at, c.hinted = c.hinted, nil
	}
	if c.at == nil {
		c.become(clientIdle)
		return
	}
	c.become(clientDialing)
	c.links++
	w := l.w
	to := c.at
	d := w.net.delay(l.p, to) + w.net.delay(to, l.p)
	switch {
	case !w.net.both(l.p, to) || to.off || to.frozen > w.now():
		c.later(dialLimit, func() { c.over(sessionEnd{why: "the dial timed out"}) })
	case !to.up():
		c.later(d, func() { c.over(sessionEnd{why: "refused"}) })
	default:
		c.later(min(d, dialLimit), func() { c.connected(to) })
	}
}

func (c *client) connected(to *peer) {
	l := c.l
	if to.life == nil {
		c.over(sessionEnd{why: "reset"})
		return
	}
	c.become(clientServing)
	mine, theirs := l.w.connect(l, to.life)
	c.link, c.id, c.welcome, c.ending, c.beats = mine, c.links, nil, false, 0
	c.heard = l.w.now()
	mine.recv = func(v any) { c.recv(mine, v.(session.Down)) }
	mine.lost = func() { c.lost(mine) }
	to.life.accept(theirs)
	c.later(welcomeLimit, func() {
		if c.welcome == nil {
			c.over(sessionEnd{why: "no Welcome"})
		}
	})
	l.worker.Opened(c.id, l.p.wall())
}

func (c *client) send(u session.Up) {
	if c.link != nil && !c.ending {
		c.link.send(copyUp(c.l.w, c.l.w.check.epochs.say(u)))
	}
}

// copyUp and copyDown are what the other side reads: frames are encoded.
func copyUp(w *world, u session.Up) (out session.Up) {
	if u.Beat != nil {
		return u
	}
	recode(w, &u, &out)
	return out
}

func copyDown(w *world, d session.Down) (out session.Down) {
	if d.Beat != nil {
		return d
	}
	recode(w, &d, &out)
	return out
}

func recode(w *world, in, out any) {
	b, err := wire.Marshal(in)
	if err == nil {
		err = wire.Unmarshal(b, out)
	}
	if err != nil {
		w.fail("bug", "a frame does not survive its encoding: %v", err)
	}
	w.sched.mix(uint64(len(b)))
}

func (c *client) recv(from *link, d session.Down) {
	l := c.l
	if c.link != from || c.ending {
		return
	}
	c.heard = l.w.now()
	switch {
	case d.Refuse != nil:
		c.over(sessionEnd{
			why: "refused: " + d.Refuse.Code, hint: l.w.byID[d.Refuse.Coordinator],
			retryAfter: min(max(0, millis(d.Refuse.RetryAfter)), retryAtMost),
		})
	case d.Beat != nil:
		if !d.Beat.Held && c.welcome != nil {
			c.over(sessionEnd{why: "not held", again: true})
		}
	case d.Welcome != nil:
		first := c.welcome == nil
		if l.p.heedless {
			d.Welcome.Highest, d.Welcome.Sum, d.Welcome.Heard = 0, nil, nil
		}
		if first {
			c.welcome, c.since = d.Welcome, l.w.now()
		}
		l.worker.Frame(c.id, l.w.check.epochs.heed(l, d), l.p.wall())
		l.w.check.epochs.welcomed(l, c.at, &d, c.ending)
		if first && !c.ending {
			c.beat()
			c.watch()
		}
		l.renew()
	case d.Assignments != nil && l.p.idles > 0: // it beats, and never starts what it got
	default:
		l.worker.Frame(c.id, l.w.check.epochs.heed(l, d), l.p.wall())
	}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (c *client) beat() {
	c.beats++
	c.send(session.Up{Beat: &session.Beat{N: c.beats}})
	d := millis(c.welcome.Beat)
	c.later(d*9/10+time.Duration(c.l.w.rng.Int64N(int64(d/5))), c.beat)
}

// watch ends the session when nothing was heard for the grace.
func (c *client) watch() {
	grace := millis(c.welcome.Grace)
	if left := c.heard + grace - c.l.w.now(); left > 0 {
		c.later(left, c.watch)
		return
	}
	c.over(sessionEnd{why: "silence"})
}

// endSoon ends the session once the core's step is over.
func (c *client) endSoon(e sessionEnd) {
	if c.link == nil || c.ending {
		return
	}
	c.ending = true
	c.later(0, func() { c.over(e) })
}

func (c *client) lost(l *link) {
	if c.link == l {
		c.over(sessionEnd{why: "the stream ended"})
	}
}

// over ends the session, or the attempt at one, and decides what is next.
func (c *client) over(e sessionEnd) {
	l := c.l
	registered := c.link != nil && c.welcome != nil
	if l.w.tracing() {
		at := "?"
		if c.at != nil {
			at = c.at.id
		}
		l.w.tracef("%s: session with %s over: %s", l.p.id, at, e.why)
	}
	c.become(clientPausing)
	if x := c.link; x != nil {
		c.link, c.welcome, c.ending = nil, nil, false
		x.abort()
		l.worker.Closed(c.id, l.p.wall())
	}
	if registered {
		c.bound = 0
	}
	if e.again && (registered || c.changed()) {
		c.later(0, c.next)
		return
	}
	if e.hint != nil && e.hint != c.at && !c.asked {
		c.hinted = e.hint
		c.later(0, c.next)
		return
	}
	if l.w.chance(0.1) {
		c.hinted = l.w.misled()
	}
	c.bound = min(backoffStep+2*c.bound, backoffMost)
	c.later(e.retryAfter+time.Duration(l.w.rng.Int64N(int64(c.bound))), c.next)
}

// misled names a wrong peer to dial: one that believes to coordinate and is not the newest, if
// there is one, or anybody.
func (w *world) misled() *peer {
	for _, p := range w.peers {
		if l := p.life; l != nil && l.leading != nil && l != w.quorum.leader {
			return p
		}
	}
	if w.chance(0.9) {
		return nil
	}
	return w.anyone()
}

// changed tells whether the hint names somebody else than was dialled last.
func (c *client) changed() bool {
	h := c.l.hint
	return h.peer != nil && (h.peer != c.at || h.epoch != c.epoch)
}

// news says that the hint may have changed.
func (c *client) news() {
	h := c.l.hint
	switch c.state {
	case clientIdle:
		c.next()
	case clientPausing:
		if c.changed() {
			c.next()
		}
	case clientServing:
		epoch := c.epoch
		if c.welcome != nil {
			epoch = c.welcome.Epoch
		}
		if h.peer != c.at && epoch.Less(h.epoch) {
			c.endSoon(sessionEnd{why: "another coordinates", again: true})
		}
	}
}

// met says that a connection to a peer came up.
func (c *client) met(p *peer) {
	if c.state == clientPausing && p == c.at {
		c.next()
	}
}
