package coordinator

import (
	"fmt"
	"slices"
	"time"

	"covey/taskstate"
)

// When so many of the other peers vanish so quickly, it is more likely that this coordinator is the isolated one: nothing is
// replaced until enough of them are back, or a person says that they are really gone.
const (
	freezeWithin = time.Minute
	freezeLeast  = 3
)

// Who vanishes together is not missed in the same moment, and does not come back in one.
const (
	settleFor = 5 * time.Second // after each return from a freeze: so long it takes until everybody knows everybody again
	holdMost  = 2 * time.Second // after a loss, while so many others are silent that a freeze may follow
)

// Freeze says why nothing is replaced; the zero value means that replacement goes its way.
type Freeze struct {
	Gone []taskstate.PeerID // vanished together and not back, by id
	Of   int                // so many other peers were there before
}

// Active tells whether replacement is frozen.
func (f Freeze) Active() bool { return len(f.Gone) > 0 }

// String says it to a person; "" if it is not.
func (f Freeze) String() string {
	if !f.Active() {
		return ""
	}
	return fmt.Sprintf("%d of %d other peers vanished within %s", len(f.Gone), f.Of, freezeWithin)
}

// loss is a peer that vanished.
type loss struct {
	peer  taskstate.PeerID
	since time.Time
}

// freezeOf looks for a minute in which at least three peers vanished that are not back, and more than half of those that were
// there when it began. others counts all other peers, vanished or not. Of several such minutes the one with the most counts. It
// depends on who is gone now and since when, and on nothing before: a coordinator elected meanwhile comes to the same.
func freezeOf(lost []loss, others int) (f Freeze) {
	slices.SortFunc(lost, func(a, b loss) int { return a.since.Compare(b.since) })
	end := 0
	for i := range lost {
		for end < len(lost) && lost[end].since.Sub(lost[i].since) <= freezeWithin {
			end++
		}
		gone, of := end-i, others-i
		if gone < freezeLeast || 2*gone <= of || gone <= len(f.Gone) {
			continue
		}
		f = Freeze{Of: of}
		for _, l := range lost[i:end] {
			f.Gone = append(f.Gone, l.peer)
		}
	}
	slices.Sort(f.Gone)
	return f
}

// comeback holds replacement back after a freeze that the return of peers ended, as long as more of them come back.
type comeback struct {
	gone  []taskstate.PeerID // vanished together and not back
	first time.Time          // when the freeze ended
	until time.Time
}

// begin starts to wait for those of a freeze that are not back.
func (b *comeback) begin(gone []taskstate.PeerID, now time.Time) {
	*b = comeback{gone: slices.Clone(gone), first: now, until: now.Add(settleFor)}
}

// look takes those off who are back; each return has the others waited for anew, but not for ever. It tells whether the wait ends.
func (b *comeback) look(back func(taskstate.PeerID) bool, now time.Time) (over bool) {
	if b.until.IsZero() {
		return false
	}
	were := len(b.gone)
	if b.gone = slices.DeleteFunc(b.gone, back); len(b.gone) < were && now.Before(b.until) {
		b.until = earlier(now.Add(settleFor), b.first.Add(freezeWithin))
	}
	if len(b.gone) > 0 && now.Before(b.until) {
		return false
	}
	*b = comeback{}
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// vanished tells whether p was here and gossip doubts or buries it, with no sign of life since. Who said goodbye has not vanished.
func (c *Core) vanished(p *peerState) bool {
	f := c.facts(p)
	return !p.left && !p.never && !p.parted && (f.Verdict == VerdictSuspect || f.Verdict == VerdictDead) && !(f.Session && f.Newer)
}

// reviewFreeze looks anew whether replacement is frozen, after anything it depends on may have changed.
func (c *Core) reviewFreeze() {
	if !c.doubts {
		return
	}
	c.doubts = false
	lost, others := c.losses(c.vanished)
	was := c.frozen
	c.frozen = freezeOf(lost, others)
	switch {
	case c.frozen.Active() && !was.Active():
		c.cfg.Log.Warn("replacement is frozen", "why", c.frozen.String())
		c.comeback = comeback{}
	case !c.frozen.Active() && was.Active():
		c.comeback.begin(was.Gone, c.now)
		c.cfg.Log.Info("replacement goes on", "in", settleFor)
	}
	if over := c.comeback.look(func(id taskstate.PeerID) bool {
		p := c.peers[id]
		return p == nil || p.excused || !c.vanished(p)
	}, c.now); over {
		c.wakeAt(c.now)
	}
}

// losses lists the peers that count as gone, and counts all others there are. Who is excused or said goodbye does not count at all.
func (c *Core) losses(gone func(*peerState) bool) (lost []loss, others int) {
	for _, p := range c.order {
		if !c.vanished(p) {
			p.excused = false
		}
		if p.id == c.cfg.Self || p.left || p.excused || p.parted {
			continue
		}
		others++
		if gone(p) {
			lost = append(lost, loss{p.id, p.since})
		}
	}
	return lost, others
}

// held tells until when what an unreachable peer has is not given to others although nothing is frozen: peers come back from a freeze,
// or so many others are silent beside it that this may be the beginning of one. Zero: it is not held.
func (c *Core) held(p *peerState) time.Time {
	if c.now.Before(c.comeback.until) {
		return c.comeback.until
	}
	until := p.lostSince.Add(holdMost)
	if !c.now.Before(until) {
		return time.Time{}
	}
	lost, others := c.losses(func(o *peerState) bool { return c.vanished(o) || c.silent(o) })
	for i, l := range lost {
		if !c.vanished(c.peers[l.peer]) {
			lost[i].since = c.now
		}
	}
	if !freezeOf(lost, others).Active() {
		return time.Time{}
	}
	return earlier(until, c.now.Add(c.cfg.Beat/4)) // who is silent may say something at any moment
}

// silent tells whether a peer that had a session in this epoch has none now, or says nothing in it.
func (c *Core) silent(p *peerState) bool {
	if p.session == nil {
		return p.back
	}
	return c.now.Sub(p.session.heard) > c.cfg.Beat*3/2
}

// Frozen tells whether and why nothing is replaced.
func (c *Core) Frozen() Freeze { return c.frozen }

// thaw takes a person's word that who has vanished is really gone. Until they are back they do not count any more.
func (c *Core) thaw() {
	for _, p := range c.order {
		p.excused = c.vanished(p)
	}
	c.doubts = true
}

// bucket limits how often something may happen: a token for each time, refilled one by one.
type bucket struct {
	spent  int       // tokens missing
	refill time.Time // when the next missing token is back
}

// take takes a token if there is one of burst; otherwise next is when there will be.
func (b *bucket) take(now time.Time, burst int, every time.Duration) (ok bool, next time.Time) {
	for b.spent > 0 && !now.Before(b.refill) {
		b.spent--
		b.refill = b.refill.Add(every)
	}
	if b.spent >= burst {
		return false, b.refill
	}
	if b.spent == 0 {
		b.refill = now.Add(every)
	}
	b.spent++
	return true, time.Time{}
}

// mayReplace tells whether attempts on an unreachable peer may be given up now. It costs a token per peer and outage, however many
// tasks it has: one peer lost is one loss. Where it says no, it sees to it that it is asked again.
func (c *Core) mayReplace(p *peerState) bool {
	if c.frozen.Active() {
		return false // its end wakes us
	}
	if until := c.held(p); !until.IsZero() {
		c.wakeAt(until)
		return false
	}
	if p.charged {
		return true
	}
	ok, next := c.limit.take(c.now, max(c.cfg.ReplaceBurst, len(c.order)/4), c.cfg.ReplaceEvery)
	if !ok {
		c.wakeAt(next)
	}
	p.charged = ok
	return ok
}
