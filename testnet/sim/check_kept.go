package sim

import (
	"slices"
	"time"
)

// keepsAtMost is how long a worker that lies may keep what it does not start, in good
// circumstances: a coordinator lets a task wait for half a minute, and the time of one behind
// others begins when those are gone.
const keepsAtMost = 2 * time.Minute

// kept holds that a worker which beats and starts nothing loses what it got, unless only its own
// word could tell whether that ran.
func (c *check) kept() {
	for _, p := range c.w.peers {
		if !c.keepsOnly(p) {
			delete(c.keeping, p)
			continue
		}
		if _, ok := c.keeping[p]; !ok {
			c.keeping[p] = c.w.now()
		}
		c.keptBy(p)
	}
}

// keepsOnly tells whether a worker lies, and that is all that is the matter: it has a session, and
// room for each task it has.
func (c *check) keepsOnly(p *peer) bool {
	w := c.w
	at := w.quorum.leader
	if p.idles == 0 || p.idles != p.pains || len(p.procs) > 0 || at == nil || at.dead || at.leading == nil || at.term == nil || at.p != p && at.p.pains > 0 {
		return false
	}
	l := p.life
	if l == nil || l.stopping || l.client.welcome == nil || l.client.at != at.p || max(l.client.since, at.term.since) > w.now()-time.Second {
		return false
	}
	for id := range w.quorum.truth.OpenOn(p.id) {
		if j := w.load.byID[id.Job]; j == nil || !j.job.Resources.Fits(p.offer) {
			return false
		}
	}
	return true
}

// keptBy looks at the tasks of a worker that could have started any of them for a while.
func (c *check) keptBy(p *peer) {
	w := c.w
	for _, id := range slices.Collect(w.quorum.truth.OpenOn(p.id)) {
		if _, ok := c.given[id]; !ok {
			c.given[id] = w.now()
		}
		if _, cancelled := c.cancels[id.Job]; cancelled || c.starts[id] != nil || w.load.byID[id.Job].job.Unreachable.Wait {
			continue
		}
		if d := w.now() - max(c.keeping[p], c.given[id]); d > keepsAtMost {
			w.fail("I1", "%s has had room for %s for %v, and keeps it and does not start it", p.id, id, d)
		}
	}
}
