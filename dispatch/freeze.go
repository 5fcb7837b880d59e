package dispatch

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

// vanished tells whether p was here and gossip doubts or buries it, with no sign of life since.
func (c *Coordinator) vanished(p *peerState) bool {
	f := c.facts(p)
	return !p.left && !p.never && (f.Verdict == VerdictSuspect || f.Verdict == VerdictDead) && !(f.Session && f.Newer)
}

// reviewFreeze looks anew whether replacement is frozen, after anything it depends on may have changed.
func (c *Coordinator) reviewFreeze() {
	if !c.doubts {
		return
	}
	c.doubts = false
	var lost []loss
	others := 0
	for _, p := range c.order {
		gone := c.vanished(p)
		if !gone {
			p.excused = false
		}
		if p.id == c.cfg.Self || p.left || p.excused {
			continue
		}
		others++
		if gone {
			lost = append(lost, loss{p.id, p.since})
		}
	}
	was := c.frozen
	c.frozen = freezeOf(lost, others)
	switch {
	case c.frozen.Active() && !was.Active():
		c.cfg.Log.Warn("replacement is frozen", "why", c.frozen.String())
	case !c.frozen.Active() && was.Active():
		c.cfg.Log.Info("replacement goes on")
		c.wakeAt(c.now)
	}
}

// Frozen tells whether and why nothing is replaced.
func (c *Coordinator) Frozen() Freeze { return c.frozen }

// thaw takes a person's word that who has vanished is really gone. Until they are back they do not count any more.
func (c *Coordinator) thaw() {
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
func (c *Coordinator) mayReplace(p *peerState) bool {
	if c.frozen.Active() {
		return false // its end wakes us
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
