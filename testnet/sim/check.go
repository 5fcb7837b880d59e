package sim

import (
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/history"
)

// check watches everything, and compares it with what was promised.
type check struct {
	w         *world
	starts    map[taskstate.TaskID]*proc
	outcomes  map[taskstate.TaskID]taskstate.RunReport
	lost      map[slot]int                          // ends whose output a full disk took
	slots     map[slot][]*proc                      // that ran or run, in order
	reasons   map[taskstate.TaskID]taskstate.Reason // why the ledger gave attempts up by name
	cancels   map[taskstate.JobID]time.Duration
	epochs    epochs
	ambiguous map[*leadership]bool
	over      map[taskstate.JobID]bool           // ended, and held against what really happened; the ledger may have forgotten it
	entries   int                                // in the log when last looked at
	still     time.Duration                      // since when
	lasting   map[taskstate.JobID]*watched       // services and global jobs
	leaves    map[taskstate.TaskID]time.Duration // since when they are to be stopped
	restarts  restarts
	lives     map[taskstate.JobID][]uint64       // entries with which a job that was over went on
	promised  map[slot]int                       // the same, as somebody was told
	gone      map[slot]int                       // the last attempts of slots that were cancelled alone
	unmissed  map[taskstate.TaskID]bool          // they ended while their job was cancelled, whichever way
	keeping   map[*peer]time.Duration            // since when they lie, and nothing else is the matter
	given     map[taskstate.TaskID]time.Duration // since when those are seen to have them
	idling    time.Duration                      // since when somebody could run what nobody runs; 0 = not so
	files     filesCheck
}

type slot struct {
	job taskstate.JobID
	n   int
}

func (s slot) String() string { return fmt.Sprintf("%s.%d", s.job, s.n) }

func slotOf(t taskstate.TaskID) slot { return slot{t.Job, t.Slot} }

func (c *check) init(w *world) {
	*c = check{
		w: w, starts: map[taskstate.TaskID]*proc{}, outcomes: map[taskstate.TaskID]taskstate.RunReport{}, slots: map[slot][]*proc{}, lost: map[slot]int{},
		reasons: map[taskstate.TaskID]taskstate.Reason{}, cancels: map[taskstate.JobID]time.Duration{},
		epochs: epochs{
			w: w, of: map[taskstate.Epoch]taskstate.PeerID{}, obeyed: map[taskstate.Incarnation]taskstate.Epoch{}, newest: map[taskstate.Incarnation]taskstate.Epoch{},
		}, ambiguous: map[*leadership]bool{}, over: map[taskstate.JobID]bool{},
		lasting: map[taskstate.JobID]*watched{}, leaves: map[taskstate.TaskID]time.Duration{}, restarts: restarts{w: w, of: map[slot]*restarted{}, wanted: map[slot]int{}},
		lives: map[taskstate.JobID][]uint64{}, promised: map[slot]int{}, gone: map[slot]int{}, keeping: map[*peer]time.Duration{}, given: map[taskstate.TaskID]time.Duration{}, unmissed: map[taskstate.TaskID]bool{},
	}
	c.files.init(c)
}

func (c *check) begin() { c.w.after(time.Second, c.tick) }

// tick looks at what must hold at every moment.
func (c *check) tick() {
	c.cancelled()
	c.idle()
	c.kept()
	c.files.room()
	c.files.quotas()
	c.w.after(time.Second, c.tick)
}

// decided hears every entry of the ledger.
func (c *check) decided(e ledger.Entry, results []ledger.Result) {
	if c.w.tracing() {
		c.w.tracef("entry %d, epoch %s by %s: %s", e.Index, e.Epoch, e.By, commands(e.Commands, results))
	}
	for i, cmd := range e.Commands {
		c.w.orders.decided(&cmd, &results[i])
		switch {
		case cmd.Supersede != nil && results[i].Refused == ledger.CodeNone:
			c.reasons[cmd.Supersede.Task] = cmd.Supersede.Reason
			c.w.stats.Replaced++
		case cmd.Act != nil && results[i].Existed: // it counted before, and changes nothing
		case cmd.Cancel != nil && results[i].Refused == ledger.CodeNone:
			if _, ok := c.cancels[cmd.Cancel.Job]; !ok {
				c.cancels[cmd.Cancel.Job] = c.w.now()
			}
		case cmd.Depart != nil:
			c.files.departed[cmd.Depart.Peer] = e.Index
		case cmd.Avail != nil && results[i].Refused == ledger.CodeNone:
			c.w.load.availed(cmd.Avail)
		case cmd.Settle != nil:
			c.settled(cmd.Settle)
		case cmd.Renew != nil:
			c.reopened(&e, cmd.Renew.Job)
			c.retried(cmd.Renew)
		}
		for _, id := range results[i].Cut {
			c.cancels[id] = c.w.now()
			c.w.reader.followed(history.Cancel, id)
		}
		c.followed(&cmd, &results[i])
	}
	for _, id := range c.w.quorum.truth.JustEnded() {
		c.over[id] = true
		c.w.reader.ended(id)
		c.ends(c.w.load.byID[id])
	}
}

// started is I4 and I10: who starts, beside whom, and with what.
func (c *check) started(l *life, r *proc) {
	w, t := c.w, r.launch.Task
	w.orders.started(l, r)
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
	c.unwantedStart(l.p, t)
	j := w.load.byID[t.Job]
	for _, o := range c.slots[slotOf(t)] {
		other := o.launch.Task
		if j != nil && j.job.Unreachable.Wait && !c.mayFollow(j, other) && !c.restarts.wantedAfter(t) {
			w.fail("I4", "%s starts %s, and %s was started before: the job must not run twice", l.p.id, t, other)
		}
		if _, over := c.outcomes[other]; over {
			continue
		}
		older := t // of the two, the one that must have been given up
		if other.Attempt < t.Attempt {
			older = other
		}
		if why, named := c.reasons[older]; named && !c.files.done[other] && why != taskstate.ReasonUnreachable && why != taskstate.ReasonStuck && why != taskstate.ReasonNotStarted {
			w.fail("I4", "%s starts %s while %s runs, and %s was given up as %s", l.p.id, t, other, older, why)
		}
		if _, _, _, st := w.quorum.truth.Assigned(older); st != taskstate.Retired {
			w.fail("I4", "%s starts %s while %s runs, and nobody gave %s up", l.p.id, t, other, older)
		}
	}
	c.begun(l.p, r)
	c.files.runsAgain(l, t)
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

// ended hears the end of a process, whatever else hears it.
func (c *check) ended(r *proc, rep taskstate.RunReport) { c.outcomes[r.launch.Task] = rep }

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
		if j.lasts() {
			need = millis(markBase) // give or take what a mark says
		}
		if _, cancelled := c.cancels[s.Task.Job]; cancelled {
			need = 0
		}
		v := t.l.views[p.n]
		since := v.since
		at, failed := t.probes[p.id]
		switch {
		case v.verdict == verdict.None && !failed:
			w.fail("I6", "%s gives %s up on %s, of which it has never heard, without asking", t.l.p.id, s.Task, p.id)
		case v.verdict == verdict.None || v.verdict == verdict.Dead && failed && at < since:
			since = at // its own dial failed before gossip said so, and nothing was heard of it since
		case v.verdict != verdict.Dead:
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

// epochs is I3: whose commands are obeyed, and that epochs never fall. The client's end of a
// session and the journal tell it.
type epochs struct {
	w      *world
	of     map[taskstate.Epoch]taskstate.PeerID      // whose commands were obeyed
	obeyed map[taskstate.Incarnation]taskstate.Epoch // newest epoch whose grants are on that disk
	newest map[taskstate.Incarnation]taskstate.Epoch // newest epoch it was welcomed in, for a Break
}

// say is a frame as the worker sends it: as it was made, or without a word about the epochs it has
// obeyed, for a Break.
func (f *epochs) say(u session.Up) session.Up {
	if h := u.Hello; h != nil && f.w.cfg.Break == BreakUnfence {
		as := *h
		as.Fence, u.Hello = taskstate.Epoch{}, &as
	}
	return u
}

// heed is a frame as the worker takes it: as it was sent, or as if it came in the newest epoch, for
// a Break.
func (f *epochs) heed(l *life, d session.Down) *session.Down {
	if f.w.cfg.Break != BreakUnfence {
		return &d
	}
	newest := f.newest[l.p.inc]
	if w := d.Welcome; w != nil && newest.Less(w.Epoch) {
		f.newest[l.p.inc] = w.Epoch
	} else if w != nil {
		as := *w
		as.Epoch, d.Welcome = newest, &as
	}
	if a := d.Assignments; a != nil && a.Epoch.Less(newest) {
		as := *a
		as.Epoch, d.Assignments = newest, &as
	}
	return &d
}

// welcomed is I3: in one epoch one coordinator is obeyed, and none of an older one.
func (f *epochs) welcomed(l *life, at *peer, d *session.Down, refused bool) {
	if refused {
		return
	}
	e := d.Welcome.Epoch
	if other, ok := f.of[e]; ok && other != at.id {
		f.w.fail("I3", "%s obeys %s in epoch %s, which is %s's", l.p.id, at.id, e, other)
	}
	f.of[e] = at.id
	if e.Less(f.obeyed[l.p.inc]) {
		f.w.fail("I3", "%s obeys %s in epoch %s, and has obeyed epoch %s before", l.p.id, at.id, e, f.obeyed[l.p.inc])
	}
}

// journaled is I3 again: what is accepted comes in epochs that never fall.
func (f *epochs) journaled(l *life, t *transaction) {
	for id, e := range t.Grants() {
		if e.Less(f.obeyed[l.p.inc]) {
			f.w.fail("I3", "%s accepts %s in epoch %s, and has obeyed epoch %s before", l.p.id, id, e, f.obeyed[l.p.inc])
		}
		f.obeyed[l.p.inc] = e
	}
}
