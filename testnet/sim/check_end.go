package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// How long things may take once nothing hurts any more.
const (
	quietWithin = 10 * time.Minute
	levelWithin = 30 * time.Second
	endsWithin  = 4 * time.Minute
	stallFor    = time.Minute // and nothing is decided meanwhile …
	everWithin  = time.Hour   // … but this is too long, however busy they are
	restFor     = 30 * time.Second

	copiesWithin = 20 * time.Minute // a keeper that is dead for good counts for ten
)

// settle is what happens after the faults: tables become equal, then all jobs end, then everything
// is at rest.
func (c *check) settle() {
	c.await(quietWithin, "I1", c.busy, func() {
		c.level()
	})
}

// moved is when the newest entry was written, to half a second.
func (c *check) moved() time.Duration {
	if n := len(c.w.quorum.log); n != c.entries {
		c.entries, c.still = n, c.w.now()
	}
	return c.still
}

// busy waits until nothing more is decided, for now.
func (c *check) busy() string {
	w := c.w
	if w.load.open > 0 {
		return fmt.Sprintf("%d requests have no answer", w.load.open)
	}
	if w.now()-c.moved() < 5*time.Second {
		return fmt.Sprintf("entry %d was written a moment ago", c.entries)
	}
	return ""
}

// level is I5, and then what follows from it.
func (c *check) level() {
	c.await(levelWithin, "I5", c.differs, func() {
		c.w.tracef("-- all tables are equal")
		c.w.load.release()
		c.await(endsWithin+afterLies(c.w), "I1", func() string { return c.unfinished(false) }, func() {
			c.await(endsWithin+afterLies(c.w), "I13", c.unwanted, func() {
				c.w.tracef("-- all jobs have ended but for those that last, which are as they are wanted")
				c.w.load.endAll()
				c.await(endsWithin, "I1", func() string { return c.unfinished(true) }, func() {
					c.w.tracef("-- all jobs have ended")
					c.await(copiesWithin, "I16", c.files.scarce, func() { c.w.after(restFor, c.rest) })
				})
			})
		})
	})
}

// afterLies is how much longer a peer that lied may be given nothing: it may be the only one.
func afterLies(w *world) (left time.Duration) {
	for _, p := range w.peers {
		left = max(left, p.doubted())
	}
	return left
}

// await looks again and again whether something still is the matter.
func (c *check) await(limit time.Duration, rule string, matter func() string, then func()) {
	end := c.w.now() + limit
	var look func()
	look = func() {
		what := matter()
		switch {
		case what == "":
			then()
		case c.w.now() >= end && c.w.now()-c.moved() > stallFor, c.w.now() >= end+everWithin:
			c.w.fail(rule, "after %v in peace: %s", limit, what)
		default:
			c.w.after(500*time.Millisecond, look)
		}
	}
	look()
}

// differs is I5: tables and replicas are equal.
func (c *check) differs() string {
	w := c.w
	var first *life
	for _, p := range w.peers {
		l := p.life
		if p.gone {
			continue
		}
		if l == nil {
			return p.id + " does not run"
		}
		if n := int(l.replica.Applied()); n != len(w.quorum.log) {
			return fmt.Sprintf("the replica of %s is at %d of %d", p.id, n, len(w.quorum.log))
		}
		if first == nil {
			first = l
			continue
		}
		if d := unequal(first, l); d != "" {
			return d
		}
	}
	if missing := c.shown(first); missing != "" {
		return missing
	}
	state := c.encoded(first) // all that is cheaper to find has been looked for: a replica is large
	for _, p := range w.peers[1:] {
		if p.gone {
			continue
		}
		w.orders.known(p.life)
		if !bytes.Equal(c.encoded(p.life), state) {
			w.fail("I5", "the replicas of %s and %s are at the same entry and differ", first.p.id, p.id)
		}
	}
	return ""
}

// encoded is a replica as everybody may have it.
func (c *check) encoded(l *life) []byte {
	var b []byte
	var err error
	l.replica.Read(func(st *ledger.State) { b, err = ledger.EncodeFor(st, "nobody") })
	if err != nil {
		c.w.fail("bug", "the replica of %s does not encode: %v", l.p.id, err)
	}
	return b
}

// shown tells whether what runs now is shown as running: tables that are equal must also be right.
func (c *check) shown(l *life) string {
	for _, p := range c.w.peers {
		for _, id := range p.running() {
			r := p.procs[id]
			if j := c.w.load.byID[id.Job]; !j.long && !j.lasts() || c.w.now()-r.since < 10*time.Second {
				continue
			}
			if s, ok := l.table.Get(id); !ok || s.State < taskstate.Accepted {
				return fmt.Sprintf("%s has run on %s since %v, and no table knows (%t %s)", id, p.id, r.since, ok, s.State)
			}
		}
	}
	return ""
}

func unequal(a, b *life) string {
	if x, y := a.table.Len(), b.table.Len(); x != y {
		return fmt.Sprintf("the table of %s has %d tasks, that of %s has %d: %s", a.p.id, x, b.p.id, y, onlyOne(a.table, b.table))
	}
	for s := range a.table.All() {
		if o, ok := b.table.Get(s.Task); !ok || s.Compare(o) != 0 {
			return fmt.Sprintf("%s is %s (%d) at %s and %s (%d) at %s", s.Task, s.State, s.Seq, a.p.id, o.State, o.Seq, b.p.id)
		}
	}
	return ""
}

func onlyOne(a, b *taskstate.Table) string {
	only := map[taskstate.TaskID]bool{}
	for s := range a.All() {
		only[s.Task] = !only[s.Task]
	}
	for s := range b.All() {
		only[s.Task] = !only[s.Task]
	}
	maps.DeleteFunc(only, func(_ taskstate.TaskID, one bool) bool { return !one })
	return fmt.Sprint(slices.SortedFunc(maps.Keys(only), taskstate.TaskID.Compare))
}

// justStarted tells of a run that a schedule, which goes on in peace, started a moment ago: it
// takes up to a minute and a half, twice that if its attempt is repeated.
func (j *work) justStarted(now time.Duration) bool {
	return j.job.Origin != nil && now-j.ackedAt < 200*time.Second
}

// unfinished is I1: what was acknowledged is there, and has ended.
func (c *check) unfinished(all bool) string {
	w := c.w
	for _, j := range w.load.jobs {
		if !all && (j.keeps() || j.justStarted(w.now())) {
			continue
		}
		if !j.acked {
			return fmt.Sprintf("job %s is not accepted", j.job.ID)
		}
		rec, ok := w.quorum.truth.Job(j.job.ID)
		if !ok && c.over[j.job.ID] {
			continue
		}
		if !ok {
			w.fail("I1", "job %s was acknowledged at %v and is lost", j.job.ID, j.ackedAt)
			return "lost"
		}
		if !c.over[j.job.ID] {
			return fmt.Sprintf("job %s has not ended: %+v%s", j.job.ID, rec.Counts(), c.why(rec))
		}
	}
	return ""
}

// why tells about the first slot that has no end.
func (c *check) why(rec *ledger.JobRecord) string {
	for s := range rec.OpenSlots() {
		id := taskstate.Task(rec.Job().ID, s.Slot, s.Attempt)
		p := c.w.byID[s.Peer]
		what := fmt.Sprintf("; %s is with %s (%s, now %s)", id, s.Peer, s.Incarnation, p.inc)
		if r := c.starts[id]; r != nil {
			what += fmt.Sprintf(", started at %v", r.since)
		}
		if rep, ok := c.outcomes[id]; ok {
			what += fmt.Sprintf(", ended as %s %s", rep.State, rep.Reason)
		}
		if l := p.life; l != nil {
			st, known := l.table.Get(id)
			what += fmt.Sprintf(", table there %s (%t), worker keeps %d, session %t", st.State, known, l.worker.Kept(), l.client.welcome != nil)
		}
		if l := c.w.quorum.leader; l != nil && l.term != nil {
			what += "; the coordinator says: " + l.term.core.Waiting(rec.Job().ID)
			c.tellWaiting()
		}
		return what
	}
	if l := c.w.quorum.leader; l != nil && l.term != nil {
		return "; the coordinator says: " + l.term.core.Waiting(rec.Job().ID)
	}
	return "; no peer coordinates"
}

// ends holds the ends of a job in the ledger against what really happened.
func (c *check) ends(j *work) {
	rec, ok := c.w.quorum.truth.Job(j.job.ID)
	if !ok {
		c.w.fail("I1", "job %s is forgotten in the moment it ends", j.job.ID)
		return
	}
	_, _, cancelled := rec.Cancelled()
	if j.cancelled && !cancelled {
		c.w.fail("I1", "that job %s was cancelled was acknowledged, and is lost", j.job.ID)
	}
	for n := range rec.Slots() {
		s := rec.Slot(n + 1)
		if s.Retired && s.Final != nil {
			continue
		}
		c.end(j, taskstate.Task(j.job.ID, s.Slot, s.Attempt), s.Final, cancelled)
	}
}

func (c *check) end(j *work, id taskstate.TaskID, final *taskstate.Status, cancelled bool) {
	rep, ran := c.outcomes[id]
	if old, turned := c.files.before[id]; turned && final != nil && old.State == final.State {
		rep = old
	}
	if final != nil && !cancelled { // nothing of a cancelled job is tried again
		c.outputLost(j, id, final)
	}
	switch {
	case final == nil:
		c.w.fail("I1", "%s has no end although its job has", id)
	case final.State == taskstate.Complete || final.State == taskstate.Failed:
		if !ran || rep.State != final.State {
			c.w.fail("I1", "the ledger says that %s is %s, and it was %s (%t)", id, final.State, rep.State, ran)
		}
		if ran && rep.Took != final.Took {
			c.w.fail("I1", "the ledger says that %s took %d ms, and it took %d", id, final.Took, rep.Took)
		}
		if ran && rep.Truncated != final.Truncated {
			c.w.fail("I1", "the ledger says of %s that its output was cut: %v, and that is wrong", id, final.Truncated)
		}
		if ran && rep.Held != final.Held {
			c.w.fail("I1", "the ledger says that %s was held to %q, and it was to %q", id, final.Held.Words(), rep.Held.Words())
		}
	case cancelled || j.job.Unreachable.Wait:
	case j.retried && (final.State == taskstate.Shutdown || c.unmissed[id]): // cut short before, and not among what was tried again
	default:
		c.w.fail("I1", "%s ended as %s (%s %s) through no fault of its own; its process: %t %s %s", id, final.State, final.Reason, final.Message, ran, rep.State, rep.Reason)
	}
}

// rest is I9: when all is over nothing is left.
func (c *check) rest() {
	w := c.w
	for _, p := range w.peers {
		l := p.life
		if p.gone {
			continue
		}
		if n := l.worker.Kept(); n > 0 {
			w.fail("I9", "the worker of %s keeps %d things of tasks that are over", p.id, n)
		}
		if n := p.disk.Records(); n > 1024 {
			w.fail("I9", "the journal of %s keeps %d records", p.id, n)
		}
		if n := l.table.Len() + l.table.Parked(); n > 0 {
			w.fail("I9", "the table of %s keeps %d tasks that are over", p.id, n)
		}
		if len(p.procs) > 0 {
			w.fail("I7", "%s still runs %v", p.id, p.running())
		}
	}
	if l := w.quorum.leader; l.term != nil {
		for _, load := range l.term.core.Peers() {
			if load.Outstanding != 0 || load.Promised != (taskstate.Resources{}) {
				w.fail("I10", "the coordinator counts %d tasks and %+v on %s, which has none", load.Outstanding, load.Promised, load.Peer)
			}
		}
	}
	c.triedAgain()
	w.reader.judge()
	w.finished = true
	w.sched.mixBytes(c.encoded(w.peers[0].life))
}
