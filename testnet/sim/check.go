package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"covey/dispatch"
	"covey/dispatch/ledger"
	"covey/taskstate"
)

// Break is one thing made wrong on purpose.
type Break string

// The breaks, and the invariant each one breaks.
const (
	BreakLoseAcked     Break = "lose-acked"      // I1: applying an entry forgets some jobs
	BreakOverwrite     Break = "overwrite"       // I2: a table takes the last status for the newest
	BreakUnfence       Break = "unfence"         // I3: a worker ignores epochs
	BreakSameTerm      Break = "same-term"       // I3: an election does not begin a new epoch
	BreakNoSync        Break = "no-sync"         // I4: the journal's last write is lost in a crash
	BreakForgetWait    Break = "forget-wait"     // I4: work that must not run twice is replaced
	BreakNoDigest      Break = "no-digest"       // I5: what gossip lost is not fetched
	BreakReplaceAtOnce Break = "replace-at-once" // I6: one lost session, and everything is given up
	BreakDeaf          Break = "deaf"            // I7: tasks that are stopped run on
	BreakNoAck         Break = "no-ack"          // I9: nothing is ever acknowledged
	BreakOversell      Break = "oversell"        // I10: a peer says it has twice what it has
)

// check watches everything, and compares it with what was promised.
type check struct {
	w         *world
	starts    map[taskstate.TaskID]*proc
	outcomes  map[taskstate.TaskID]taskstate.RunReport
	slots     map[slot][]*proc                      // that ran or run, in order
	reasons   map[taskstate.TaskID]taskstate.Reason // why the ledger gave attempts up by name
	cancels   map[taskstate.JobID]time.Duration
	epochs    map[taskstate.Epoch]taskstate.PeerID      // whose commands were obeyed
	obeyed    map[taskstate.Incarnation]taskstate.Epoch // newest epoch whose grants are on that disk
	ambiguous map[*leadership]bool
	over      map[taskstate.JobID]bool // ended, and held against what really happened; the ledger may have forgotten it
	entries   int                      // in the log when last looked at
	still     time.Duration            // since when
	idling    time.Duration            // since when somebody could run what nobody runs; 0 = not so
}

type slot struct {
	job taskstate.JobID
	n   int
}

func slotOf(t taskstate.TaskID) slot { return slot{t.Job, t.Slot} }

func (c *check) init(w *world) {
	*c = check{
		w: w, starts: map[taskstate.TaskID]*proc{}, outcomes: map[taskstate.TaskID]taskstate.RunReport{}, slots: map[slot][]*proc{},
		reasons: map[taskstate.TaskID]taskstate.Reason{}, cancels: map[taskstate.JobID]time.Duration{},
		epochs: map[taskstate.Epoch]taskstate.PeerID{}, obeyed: map[taskstate.Incarnation]taskstate.Epoch{}, ambiguous: map[*leadership]bool{}, over: map[taskstate.JobID]bool{},
	}
}

func (c *check) begin() { c.w.after(time.Second, c.tick) }

// tick looks at what must hold at every moment.
func (c *check) tick() {
	c.cancelled()
	c.idle()
	c.w.after(time.Second, c.tick)
}

// decided hears every entry of the ledger.
func (c *check) decided(e ledger.Entry, results []ledger.Result) {
	if c.w.tracing() {
		c.w.tracef("entry %d, epoch %s by %s: %s", e.Index, e.Epoch, e.By, commands(e.Commands, results))
	}
	for i, cmd := range e.Commands {
		switch {
		case cmd.Supersede != nil && results[i].Refused == ledger.CodeNone:
			c.reasons[cmd.Supersede.Task] = cmd.Supersede.Reason
			c.w.stats.Replaced++
		case cmd.Cancel != nil && results[i].Refused == ledger.CodeNone:
			if _, ok := c.cancels[cmd.Cancel.Job]; !ok {
				c.cancels[cmd.Cancel.Job] = c.w.now()
			}
		}
	}
	for _, id := range c.w.quorum.truth.JustEnded() {
		c.over[id] = true
		c.ends(c.w.load.byID[id])
	}
}

// started is I4 and I10: who starts, beside whom, and with what.
func (c *check) started(l *life, r *proc) {
	w, t := c.w, r.launch.Task
	if old := c.starts[t]; old != nil {
		w.fail("I4", "%s starts %s, which was started before, at %v", l.p.id, t, old.since)
	}
	peer, inc, _, st := w.quorum.truth.Assigned(t)
	if st == taskstate.Unknown {
		w.fail("I4", "%s starts %s, which nobody gave to anybody", l.p.id, t)
	}
	if st == taskstate.Known && (peer != l.p.id || inc != l.p.inc) {
		w.fail("I4", "%s starts %s, which was given to %s (%s)", l.p.id, t, peer, inc)
	}
	switch why, named := c.reasons[t]; {
	case named && (why == taskstate.ReasonDropped || why == taskstate.ReasonRecalled || why == taskstate.ReasonInterrupted):
		w.fail("I4", "%s starts %s, which it gave back (%s)", l.p.id, t, why)
	}
	j := w.load.byID[t.Job]
	for _, o := range c.slots[slotOf(t)] {
		other := o.launch.Task
		if j != nil && j.job.Unreachable.Wait {
			w.fail("I4", "%s starts %s, and %s was started before: the job must not run twice", l.p.id, t, other)
		}
		if _, over := c.outcomes[other]; over {
			continue
		}
		older := t // of the two, the one that must have been given up
		if other.Attempt < t.Attempt {
			older = other
		}
		if why, named := c.reasons[older]; named && why != taskstate.ReasonUnreachable {
			w.fail("I4", "%s starts %s while %s runs, and %s was given up as %s", l.p.id, t, other, older, why)
		}
		if _, _, _, st := w.quorum.truth.Assigned(older); st != taskstate.Retired {
			w.fail("I4", "%s starts %s while %s runs, and nobody gave %s up", l.p.id, t, other, older)
		}
	}
	c.starts[t] = r
	c.slots[slotOf(t)] = append(c.slots[slotOf(t)], r)
	c.offered(l.p, r)
}

// offered is I10: what runs fits into what the peer has.
func (c *check) offered(p *peer, r *proc) {
	free := p.offer
	for _, o := range p.procs {
		free = free.Sub(o.launch.Job.Resources)
	}
	if need := r.launch.Job.Resources; !need.Fits(free) {
		c.w.fail("I10", "%s starts %s, which needs %+v, and has %+v left of %+v", p.id, r.launch.Task, need, free, p.offer)
	}
}

// ended hears the end of a process, whoever else does.
func (c *check) ended(r *proc, rep taskstate.RunReport) { c.outcomes[r.launch.Task] = rep }

// beforeFrame is called before a worker hears anything of a coordinator.
func (c *check) beforeFrame(l *life) {
	if c.w.cfg.Break == BreakUnfence {
		l.worker.Unfence()
	}
}

// welcomed is I3: in one epoch one coordinator is obeyed, and none of an older one.
func (c *check) welcomed(l *life, at *peer, d *dispatch.Down, refused bool) {
	if refused {
		return
	}
	e := d.Welcome.Epoch
	if other, ok := c.epochs[e]; ok && other != at.id {
		c.w.fail("I3", "%s obeys %s in epoch %s, which is %s's", l.p.id, at.id, e, other)
	}
	c.epochs[e] = at.id
	if e.Less(c.obeyed[l.p.inc]) {
		c.w.fail("I3", "%s obeys %s in epoch %s, and has obeyed epoch %s before", l.p.id, at.id, e, c.obeyed[l.p.inc])
	}
}

// journaled is I3 again: what is accepted comes in epochs that never fall.
func (c *check) journaled(l *life, t *dispatch.SimTxn) {
	for id, e := range t.Grants() {
		if e.Less(c.obeyed[l.p.inc]) {
			c.w.fail("I3", "%s accepts %s in epoch %s, and has obeyed epoch %s before", l.p.id, id, e, c.obeyed[l.p.inc])
		}
		c.obeyed[l.p.inc] = e
	}
}

// news is I2: what a table calls news is.
func (c *check) news(l *life, news []taskstate.Status) {
	sum := uint64(0)
	for _, s := range news {
		if old, ok := l.seen[s.Task]; ok && s.Compare(old) <= 0 {
			c.w.fail("I2", "the table of %s goes back: %s was %s (%d), is %s (%d)", l.p.id, s.Task, old.State, old.Seq, s.State, s.Seq)
		}
		l.seen[s.Task] = s
		sum += uint64(s.State)<<32 | s.Seq
	}
	c.w.sched.mix(sum) // news of one moment comes in no order
}

// proposed is I6: only who is really gone, for long enough, is given up.
func (c *check) proposed(t *term, cmds []ledger.Command) {
	w := c.w
	for _, cmd := range cmds {
		s := cmd.Supersede
		if s == nil || s.Reason != taskstate.ReasonUnreachable {
			continue
		}
		id, _, _, _ := w.quorum.truth.Assigned(s.Task)
		p, j := w.byID[id], w.load.byID[s.Task.Job]
		if p == nil || j == nil {
			continue // decided otherwise meanwhile
		}
		need := millis(j.job.Unreachable.ReplaceAfter)
		if _, cancelled := c.cancels[s.Task.Job]; cancelled {
			need = 0
		}
		v := t.l.views[p.n]
		since := v.since
		if v.verdict == dispatch.VerdictNone {
			at, failed := t.probes[p.id]
			if !failed {
				w.fail("I6", "%s gives %s up on %s, of which it has never heard, without asking", t.l.p.id, s.Task, p.id)
			}
			since = at
		} else if v.verdict != dispatch.VerdictDead {
			w.fail("I6", "%s gives %s up on %s, which it finds %s", t.l.p.id, s.Task, p.id, v.verdict)
		}
		if w.now()-since < need {
			w.fail("I6", "%s gives %s up %v after the verdict, and should wait %v", t.l.p.id, s.Task, w.now()-since, need)
		}
		if j.job.Unreachable.Wait && s.Again {
			w.fail("I6", "%s gives %s up, which must not run twice", t.l.p.id, s.Task)
		}
	}
}

// startedOver holds a coordinator that lost track against what it could know.
func (c *check) startedOver(t *term, why string) {
	if !c.ambiguous[t.lead] && t.lead.term == c.w.quorum.term {
		c.w.fail("bug", "the coordinator %s lost track: %s", t.l.p.id, why)
	}
}

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
			if ok && w.now()-max(since, at) > contact {
				w.fail("I7", "%s still runs %s, %v after its job was cancelled and %v after contact", p.id, id, w.now()-at, w.now()-since)
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
		if _, _, cancelled := rec.Cancelled(); queued > 0 && !cancelled && j.job.Parallel == 0 && j.job.MaxPerPeer == 0 {
			needs = append(needs, rec)
		}
	}
	for _, p := range w.peers {
		if waits[p] > 0 || w.now()-p.started < patience || p.life == nil || p.life.client.welcome == nil || p.life.client.at != l.p {
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

// How long things may take once nothing hurts any more.
const (
	quietWithin = 10 * time.Minute
	levelWithin = 30 * time.Second
	endsWithin  = 4 * time.Minute
	restFor     = 30 * time.Second
)

// settle is what happens after the faults: tables become equal, then all jobs end, then everything is at rest.
func (c *check) settle() {
	c.await(quietWithin, "I1", c.busy, func() {
		c.level()
	})
}

// busy waits until nothing more is decided, for now.
func (c *check) busy() string {
	w := c.w
	if w.load.open > 0 {
		return fmt.Sprintf("%d requests have no answer", w.load.open)
	}
	if n := len(w.quorum.log); n != c.entries {
		c.entries, c.still = n, w.now()
	}
	if w.now()-c.still < 5*time.Second {
		return fmt.Sprintf("entry %d was written a moment ago", c.entries)
	}
	return ""
}

// level is I5, and then what follows from it.
func (c *check) level() {
	c.await(levelWithin, "I5", c.differs, func() {
		c.w.tracef("-- all tables are equal")
		c.w.load.release()
		c.await(endsWithin, "I1", c.unfinished, func() {
			c.w.tracef("-- all jobs have ended")
			c.w.after(restFor, c.rest)
		})
	})
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
		case c.w.now() >= end:
			c.w.fail(rule, "%v after the faults: %s", limit, what)
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
	var state []byte
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
			first, state = l, c.encoded(l)
			continue
		}
		if d := unequal(first, l); d != "" {
			return d
		}
	}
	for _, p := range w.peers[1:] {
		if !p.gone && !bytes.Equal(c.encoded(p.life), state) {
			w.fail("I5", "the replicas of %s and %s are at the same entry and differ", first.p.id, p.id)
		}
	}
	if missing := c.shown(first); missing != "" {
		return missing
	}
	return ""
}

func (c *check) encoded(l *life) []byte {
	b, err := l.replica.Encode()
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
			if !c.w.load.byID[id.Job].long || c.w.now()-r.since < 10*time.Second {
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

// unfinished is I1: what was acknowledged is there, and has ended.
func (c *check) unfinished() string {
	w := c.w
	for _, j := range w.load.jobs {
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
		return what
	}
	if l := c.w.quorum.leader; l != nil && l.term != nil {
		return "; the coordinator says: " + l.term.core.Waiting(rec.Job().ID)
	}
	return "; nobody coordinates"
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
	for n := range j.job.Count {
		s := rec.Slot(n + 1)
		c.end(j, taskstate.Task(j.job.ID, s.Slot, s.Attempt), s.Final, cancelled)
	}
}

func (c *check) end(j *work, id taskstate.TaskID, final *taskstate.Status, cancelled bool) {
	rep, ran := c.outcomes[id]
	switch {
	case final == nil:
		c.w.fail("I1", "%s has no end although its job has", id)
	case final.State == taskstate.Complete || final.State == taskstate.Failed:
		if !ran || rep.State != final.State {
			c.w.fail("I1", "the ledger says that %s is %s, and it was %s (%t)", id, final.State, rep.State, ran)
		}
	case cancelled || j.job.Unreachable.Wait:
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
	w.finished = true
	w.sched.mixBytes(c.encoded(w.peers[0].life))
}

// commands describes an entry for a reader.
func commands(cmds []ledger.Command, results []ledger.Result) string {
	var b bytes.Buffer
	for i, c := range cmds {
		switch {
		case c.Found != nil:
			fmt.Fprint(&b, "found ")
		case c.Lead != nil:
			fmt.Fprint(&b, "lead ")
		case c.Admit != nil:
			fmt.Fprint(&b, "admit ", c.Admit.Entry.Peer, " ")
		case c.Submit != nil:
			fmt.Fprint(&b, "submit ", c.Submit.Job.ID, " ")
		case c.Cancel != nil:
			fmt.Fprint(&b, "cancel ", c.Cancel.Job, " ")
		case c.Assign != nil:
			fmt.Fprint(&b, "assign ", c.Assign.Job, c.Assign.Slots, " to ", c.Assign.Incarnation, " ")
		case c.Settle != nil:
			fmt.Fprint(&b, "settle by ", c.Settle.Incarnation, " ")
			for _, s := range c.Settle.Statuses {
				fmt.Fprint(&b, s.Task, "=", s.State, " ")
			}
		case c.Supersede != nil:
			fmt.Fprint(&b, "supersede ", c.Supersede.Task, " ", c.Supersede.Reason, " again ", c.Supersede.Again, " ")
		case c.Depart != nil:
			fmt.Fprint(&b, "depart ", c.Depart.Peer, " ")
		case c.Register != nil:
			fmt.Fprint(&b, "register ", c.Register.Incarnation, " ")
		}
		if i < len(results) && results[i].Refused != ledger.CodeNone {
			fmt.Fprintf(&b, "REFUSED %s %v %v ", results[i].Refused, results[i].Slots, results[i].Statuses)
		}
	}
	return b.String()
}
