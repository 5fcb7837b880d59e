package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// contact is how long a worker may take, in good circumstances, to stop what it hears of.
const contact = 15 * time.Second

// cancelled is I7.
func (c *check) cancelled() {
	w := c.w
	l := w.quorum.leader
	if l == nil || l.dead || l.leading == nil || l.term == nil || l.p.pains > 0 {
		return
	}
	for _, p := range w.peers {
		cl := &client{}
		if p.life != nil {
			cl = &p.life.client
		}
		if p.pains > 0 || cl.welcome == nil || cl.at != l.p {
			continue
		}
		since := max(cl.since, p.trouble, l.p.trouble, l.term.since)
		for _, id := range p.running() {
			at, ok := c.cancels[id.Job]
			if since, told := c.leaves[id]; told && !ok {
				at, ok = since, true
			}
			if ok && w.now()-max(since, at) > contact {
				w.fail("I7", "%s still runs %s, %v after it was to be stopped and %v after contact", p.id, id, w.now()-at, w.now()-since)
			}
		}
	}
}

// patience is how long a task may wait in calm times while somebody has room for it.
const patience = 10 * time.Second

// idle holds, once nothing hurts any more, that no peer has room for a task that waits elsewhere.
func (c *check) idle() {
	w := c.w
	what := ""
	if l := w.quorum.leader; w.calm && w.now() > w.cfg.Length+20*time.Second && w.cfg.Seed%4 != 0 && l.term != nil {
		what = c.wasted(l)
	}
	switch {
	case what == "":
		c.idling = 0
	case c.idling == 0:
		c.idling = w.now()
	case w.now()-c.idling > patience:
		c.tellWaiting()
		w.fail("I1", "for %v %s", w.now()-c.idling, what)
	}
}

// tellWaiting tells a reader all that waits and why.
func (c *check) tellWaiting() {
	if t := c.w.quorum.leader.term; c.w.tracing() && t != nil {
		for _, j := range c.w.load.jobs {
			if why := t.core.Waiting(j.job.ID); why != "" {
				c.w.tracef("job %s waits: %s; %+v, parallel %d, %d per peer", j.job.ID, why, j.job.Resources, j.job.Parallel, j.job.MaxPerPeer)
			}
		}
		for _, p := range t.core.Peers() {
			c.w.tracef("peer %+v", p)
		}
	}
}

// passedOver tells whether the coordinator may give a peer nothing for now, as it started nothing
// of what it got a moment ago: both that it does so, and that it may.
func (c *check) passedOver(p *peer) bool {
	if p.doubted() <= 0 {
		return false
	}
	return c.finds(p, func(l coordinator.PeerLoad) bool { return l.PassedOver })
}

// doubted is for how long a peer may still be given nothing, since it lied.
func (p *peer) doubted() time.Duration {
	if p.lied == 0 {
		return 0
	}
	return p.lied + shunFor + patience - p.w.now()
}

// shunFor is how long it gives nothing to such a peer; see dispatch.
const shunFor = 5 * time.Minute

// faultCount is how many tasks of a job must have failed on a peer before it is passed over; see
// dispatch.
const faultCount = 5

// wasted finds room that something waits for.
func (c *check) wasted(l *life) string {
	w := c.w
	waits := map[*peer]int{} // tasks given to a peer that have not started
	var needs []*ledger.JobRecord
	for _, j := range w.load.jobs {
		rec, ok := w.quorum.truth.Job(j.job.ID)
		if !ok {
			continue
		}
		if _, over := rec.Ended(); over {
			continue
		}
		queued := rec.Counts().Pending
		for s := range rec.OpenSlots() {
			if c.starts[taskstate.Task(j.job.ID, s.Slot, s.Attempt)] == nil {
				queued++
				waits[w.byID[s.Peer]]++
			}
		}
		if n := rec.Counts(); n.Failed+n.Rejected >= faultCount {
			continue // it may be kept from peers for that
		}
		if _, _, cancelled := rec.Cancelled(); queued > 0 && !cancelled && !j.particular() && len(rec.Blocked()) == 0 && j.job.Parallel == 0 && j.job.MaxPerPeer == 0 {
			needs = append(needs, rec)
		}
	}
	for _, p := range w.peers {
		if m, ok := w.quorum.truth.Member(p.id); !ok || !m.Takes() || waits[p] > 0 || w.now()-p.started < patience || p.life == nil || p.life.client.welcome == nil || p.life.client.at != l.p || c.passedOver(p) {
			continue
		}
		free := p.offer
		for _, r := range p.procs {
			free = free.Sub(r.launch.Job.Resources)
		}
		for _, rec := range needs {
			if rec.Job().Resources.Fits(free) {
				return fmt.Sprintf("%s has %+v to spare and nothing waits there, and job %s waits: %+v", p.id, free, rec.Job().ID, rec.Counts())
			}
		}
	}
	return ""
}

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
		if _, cancelled := c.cancels[id.Job]; cancelled || c.starts[id] != nil || len(w.load.byID[id.Job].job.Inputs) > 0 || w.load.byID[id.Job].job.Unreachable.Wait {
			continue
		}
		if d := w.now() - max(c.keeping[p], c.given[id]); d > keepsAtMost {
			w.fail("I1", "%s has had room for %s for %v, and keeps it and does not start it", p.id, id, d)
		}
	}
}
