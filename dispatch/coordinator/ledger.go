package coordinator

import (
	"cmp"
	"slices"

	"covey/dispatch/ledger"
	"covey/dispatch/session"
	"covey/p2p/admission"
	"covey/taskstate"
)

// onApplied follows the ledger. Each command is mirrored as ledger.State carried it out; the
// results say what was refused.
func (c *Core) onApplied(ev LedgerApplied) {
	if ev.Entry.Index <= c.clock.Index() {
		return
	}
	if len(ev.Results) != len(ev.Entry.Commands) {
		c.agenda.startOver("an entry came without its results")
		return
	}
	c.clock.Heard(ev.Entry.Index, ev.Entry.Stamp)
	for i := range ev.Entry.Commands {
		r := &ev.Results[i]
		if o := r.Reopened; o != nil && c.jobs.of(o.Job.ID) == nil {
			c.jobs.takeUp(o)
		}
		c.upkeep.pin(r.Now)
		for _, a := range r.Again {
			c.jobs.waits(a, ev.Entry.Commands[i].Renew != nil) // before what made it wait ends: no job is over in between
		}
		c.applied(&ev.Entry.Commands[i], r, ev.Entry.Index)
		c.followed(r)
	}
}

// followed carries out what a command brought about besides what it says.
func (c *Core) followed(r *ledger.Result) {
	for _, a := range r.Again {
		if j := c.jobs.of(a.Job); j != nil {
			c.jobs.enqueue(j)
		}
	}
	for _, id := range r.Cut {
		c.appliedCancel(id)
	}
	for _, id := range r.Released {
		if j := c.jobs.of(id); j != nil {
			j.blocked = false
			c.jobs.enqueue(j)
		}
	}
}

func (c *Core) applied(cmd *ledger.Command, r *ledger.Result, index uint64) {
	if cmd.Submit != nil {
		c.jobs.schedules.decided(cmd.Submit.Job.ID)
	}
	switch {
	case r.Refused == ledger.CodeStale:
		if cmd.Assign != nil || cmd.Settle != nil || cmd.Supersede != nil {
			c.agenda.startOver("a decision was refused as stale")
		}
	case cmd.Settle != nil:
		c.appliedSettle(cmd.Settle, r)
	case cmd.Assign != nil:
		c.appliedAssign(cmd.Assign, r, index)
	case cmd.Supersede != nil:
		c.appliedSupersede(cmd.Supersede, r)
	case cmd.Register != nil:
		c.appliedRegister(cmd.Register, r)
	case c.upkeep.applied(cmd, r): // also what was refused – it is not under way any more – or only partly done
	case r.Refused != ledger.CodeNone || r.Existed || r.Skipped:
	case cmd.Submit != nil:
		c.jobs.appliedSubmit(r.Now)
	case cmd.Cancel != nil:
		c.appliedCancel(cmd.Cancel.Job)
	case cmd.Avail != nil:
		c.peers.appliedAvail(cmd.Avail, r)
	case cmd.Set != nil:
		c.sessions.appliedSet(cmd.Set)
	case cmd.Label != nil:
		c.peers.appliedLabel(cmd.Label, r)
	case cmd.Found != nil:
		c.peers.appliedEntry(cmd.Found.Founder)
	case cmd.Admit != nil:
		c.peers.appliedEntry(cmd.Admit.Entry)
	case cmd.Remove != nil:
		if p := c.peers.of(cmd.Remove.Peer); p != nil {
			c.tasks.giveUpAll(p)
			if p.session != nil {
				c.sessions.endSession(p.session, "removed from the cluster")
			}
			c.peers.dropPeer(p)
		}
	case cmd.Depart != nil:
		if p := c.peers.of(cmd.Depart.Peer); p != nil {
			c.tasks.giveUpAll(p)
			p.left = true
			c.peers.review(p)
		}
	}
}

// appliedSubmit begins to drive a job that was accepted.
func (js *jobs) appliedSubmit(o *ledger.Outline) {
	j := js.takeUp(o)
	if n := j.job.Count; n > 0 && j.job.Schedule == nil {
		j.wait(ledger.Slots{First: 1, N: n, Attempt: j.first}, j.job.Version, "")
		for k := 1; k <= n && j.lasting != nil; k++ {
			j.lasting.waits(k, j.first, j.job.Version)
		}
	}
	js.enqueue(j)
}

func (ps *peers) appliedEntry(e admission.Entry) {
	p := ps.addPeer(e.Peer)
	p.worker = e.Has(admission.Worker)
	ps.review(p)
	ps.agenda.place()
}

// appliedAssign turns slots under way into open tasks and hands them to the peer's session.
func (c *Core) appliedAssign(a *ledger.Assign, r *ledger.Result, index uint64) {
	j, p := c.jobs.of(a.Job), c.peers.of(a.Peer)
	if p != nil {
		c.sessions.assigned(p)
	}
	if j == nil || p == nil {
		if r.Refused != ledger.CodeUnknown && r.Refused != ledger.CodeOver {
			c.agenda.startOver("an assignment was applied for a job or peer that is not known here")
		} else if j != nil {
			c.tasks.assignRefused(j, nil, a)
		}
		return
	}
	if r.Refused != ledger.CodeNone && r.Refused != ledger.CodePartly {
		c.tasks.assignRefused(j, p, a)
		return
	}
	for _, run := range a.Slots {
		if !j.landed(a.Peer, run) {
			c.agenda.startOver("an assignment was applied that this core did not propose")
			return
		}
	}
	h, body := p.hold(j), j.body(a.Version)
	slots, ok := c.tasks.withoutEarly(p, h, body, a.Slots, r.Slots)
	if !ok {
		c.agenda.startOver("slots that were thought to wait did not")
		return
	}
	for _, run := range slots {
		for n := range run.All() {
			h.slots[n] = rec{index: index, attempt: uint32(run.Attempt), version: uint32(a.Version), state: taskstate.Assigned}
			j.lasting.begun(n, run.Attempt, a.Version, p.id)
		}
		j.open += run.N
	}
	if s := p.session; s != nil && s.synced && len(slots) > 0 {
		s.grants = append(s.grants, grantPiece{job: j, body: body, index: index, slots: slots})
		c.sessions.touch(s)
	}
	if j.cancelled {
		c.sessions.stopAll(p, h)
	}
	if p.standing == Unreachable {
		c.clock.WakeAt(c.clock.Now()) // it went away meanwhile
	}
	c.jobs.endJob(j)
}

// assigned counts an assignment to p as no longer under way; who waits to be let go may have waited
// for it.
func (ss *sessions) assigned(p *peerState) {
	p.assigning = max(0, p.assigning-1)
	if p.session != nil && p.session.leaving {
		ss.touch(p.session)
	}
}

// landed removes a run from those under way and tells whether it was there.
func (j *jobState) landed(peer taskstate.PeerID, run ledger.Slots) bool {
	for i, x := range j.inflight {
		if x.peer == peer && x.Slots == run {
			j.inflight[i] = j.inflight[len(j.inflight)-1]
			j.inflight = j.inflight[:len(j.inflight)-1]
			return true
		}
	}
	return false
}

// assignRefused takes an assignment back: the peer went away or the job was cancelled while it was
// under way. p is nil if the peer was removed.
func (ts *tasks) assignRefused(j *jobState, p *peerState, a *ledger.Assign) {
	for _, run := range a.Slots {
		if !j.landed(a.Peer, run) {
			ts.agenda.startOver("an assignment was refused that this core did not propose")
			return
		}
		if p != nil {
			p.promise(p.hold(j), -run.N, j.body(a.Version))
		} else {
			j.live -= run.N
		}
		for n := range run.All() {
			if !j.cancelled && !j.early[n] {
				j.waitAgain(n, run.Attempt)
			}
			delete(j.early, n)
		}
	}
	ts.jobs.enqueue(j)
	ts.jobs.endJob(j)
}

// appliedSettle closes tasks whose end is decided.
func (c *Core) appliedSettle(s *ledger.Settle, r *ledger.Result) {
	p := c.peers.of(s.Peer) // nil: it was removed, and may have told of a success before
	refused := r.Statuses
	var h *holding
	for i := range s.Statuses {
		t := s.Statuses[i].Task
		c.tasks.lateDecided(p, t)
		if p == nil {
			if len(refused) > 0 && refused[0] == t {
				refused = refused[1:]
			} else {
				c.tasks.appliedLate(t, r.Overtaken)
			}
			continue
		}
		if len(refused) > 0 && refused[0] == t {
			// Decided before in another way; whatever decided it was mirrored here when it was
			// applied.
			refused = refused[1:]
			if _, _, open := p.find(t); open && s.Incarnation == p.incarnation {
				c.agenda.startOver("an end was refused for " + t.String() + ", which was thought open")
			}
			continue
		}
		if h == nil || h.job.id != t.Job {
			h = p.holds[t.Job]
		}
		if h != nil {
			if rc, ok := h.slots[t.Slot]; ok && int(rc.attempt) == t.Attempt {
				c.jobs.ended(p, h, &s.Statuses[i], rc)
				c.tasks.close(p, h, t.Slot, rc)
				continue
			}
		}
		c.tasks.appliedLate(t, r.Overtaken)
	}
}

// close forgets an open task: its slot has its end.
func (ts *tasks) close(p *peerState, h *holding, slot int, r rec) {
	ts.release(p, h, &r)
	ts.sessions.batchDone(p.session, r.batch)
	delete(h.slots, slot)
	delete(h.job.leaving, slot)
	h.job.lasting.over(slot, p.id)
	h.job.open--
	ts.jobs.endJob(h.job)
}

// appliedSupersede gives an attempt up: its slot waits again, or has its end.
func (c *Core) appliedSupersede(s *ledger.Supersede, r *ledger.Result) {
	j := c.jobs.of(s.Task.Job)
	if j == nil || r.Refused != ledger.CodeNone {
		return
	}
	for _, p := range c.peers.list() {
		if h, rc, ok := p.find(s.Task); ok {
			c.tasks.giveUp(p, h, s.Task.Slot, rc, s.Again, s.Reason)
			return
		}
	}
	c.agenda.startOver("an attempt was given up that was not known here: " + s.Task.String())
}

// appliedRegister knows the life a peer is in now, and lets a session go on that waited for it.
func (c *Core) appliedRegister(reg *ledger.Register, r *ledger.Result) {
	p := c.peers.of(reg.Peer)
	if p == nil {
		return
	}
	if r.Refused == ledger.CodeNone && !r.Existed {
		if p.incarnation != reg.Incarnation {
			c.tasks.giveUpAll(p)
			p.fence(p.incarnation)
		}
		p.incarnation, p.left = reg.Incarnation, false
		p.name = cmp.Or(reg.Name, p.name)
	}
	s := p.session
	if s == nil || s.welcomed || s.incarnation != reg.Incarnation {
		c.peers.review(p)
		return
	}
	if r.Refused != ledger.CodeNone {
		c.sessions.refuse(s, session.Refuse{Code: session.RefuseNotAdmitted, Message: "the ledger refused to register this worker: " + string(r.Refused)})
		return
	}
	c.welcome(s)
}

// fence remembers a life that is over, so that a copy of its data folder is told.
func (p *peerState) fence(inc taskstate.Incarnation) {
	const remembered = 8
	if inc == "" || slices.Contains(p.fenced, inc) {
		return
	}
	if p.fenced = append(p.fenced, inc); len(p.fenced) > remembered {
		p.fenced = p.fenced[1:]
	}
}

// derive fills the core from everything decided so far.
func (c *Core) derive(st *ledger.State) {
	for m := range st.Members() {
		if m.In() {
			p := c.peers.addPeer(m.Entry.Peer)
			p.worker, p.incarnation, p.left = m.Entry.Has(admission.Worker), m.Incarnation, m.Left
			c.peers.deriveMember(p, m)
			c.peers.review(p)
		}
	}
	var records []*ledger.JobRecord
	for r := range st.Jobs() {
		c.tasks.deriveGivenUp(r)
		if _, over := r.Ended(); !over {
			records = append(records, r)
		}
	}
	slices.Reverse(records) // the oldest first
	for _, r := range records {
		c.deriveJob(r)
	}
}

func (c *Core) deriveJob(r *ledger.JobRecord) {
	j := c.jobs.takeUp(r.Outline())
	_, _, j.cancelled = r.Cancelled()
	c.jobs.delay(j) // nobody knows when it last started one
	c.jobs.derivePending(j, r)
	for s := range r.OpenSlots() {
		p := c.peers.of(s.Peer)
		if p == nil {
			c.agenda.startOver("task " + taskstate.Task(j.id, s.Slot, s.Attempt).String() + " is assigned to a peer that is no member")
			continue
		}
		h := p.hold(j)
		x := rec{index: s.Index, attempt: uint32(s.Attempt), version: uint32(s.Version), state: taskstate.Assigned}
		if s.Index < c.tasks.began {
			x.marks |= inherited
		}
		h.slots[s.Slot] = x
		j.open++
		p.promise(h, 1, j.body(s.Version))
		j.lasting.begun(s.Slot, s.Attempt, s.Version, s.Peer)
		if s.Leaving != "" && !j.cancelled {
			j.leave(s.Slot, leaving{why: s.Leaving, next: s.Next, retired: s.Retired})
			j.lasting.retire(s.Slot, s.Retired)
		}
	}
	c.jobs.enqueue(j)
}

// takeUp begins to drive a job that is under way, or goes on after it was over. Which of its slots
// wait, and who has others, comes after.
func (js *jobs) takeUp(o *ledger.Outline) *jobState {
	j := js.addJob(o.Job, o.Index) // Version is the ledger's
	j.first, j.blocked = o.First, o.Blocked
	js.addSchedule(j, o.StartsFrom)
	j.lasting.derive(o)
	return j
}

// derivePending queues what waits. Slots that are alike come in runs; those of lasting jobs, and
// those that wait for their time, one by one.
func (js *jobs) derivePending(j *jobState, r *ledger.JobRecord) {
	plain := j.lasting == nil && j.job.Restart == nil
	for run := range r.PendingSlots() {
		if plain {
			j.wait(run, 0, "")
			continue
		}
		for n := range run.All() {
			s := r.Slot(n)
			js.waits(ledger.Again{Job: j.id, Slots: ledger.Slots{First: n, N: 1, Attempt: s.Attempt}, Version: s.Version, NotBefore: s.NotBefore}, false)
		}
	}
}
