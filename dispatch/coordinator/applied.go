package coordinator

import (
	"cmp"
	"slices"

	"covey/dispatch/ledger"
	"covey/dispatch/session"
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

// appliedCancel stops a job: what waits is over, what is open is stopped wherever a session is up;
// elsewhere it is stopped when the worker comes back.
func (c *Core) appliedCancel(id taskstate.JobID) {
	j := c.jobs.of(id)
	if j == nil {
		return
	}
	j.cancelled = true
	j.groups, j.later, j.leaving = nil, nil, nil
	for _, p := range c.peers.list() {
		if h := p.holds[id]; h != nil {
			c.sessions.stopAll(p, h)
			if p.standing == Unreachable {
				c.clock.WakeAt(c.clock.Now())
			}
		}
	}
	c.jobs.endJob(j)
}

// appliedLate follows a success that came back and counts: the attempt that took its place is over.
func (ts *tasks) appliedLate(t taskstate.TaskID, overtaken []taskstate.TaskID) {
	ts.given.drop(t)
	j := ts.jobs.of(t.Job)
	if j == nil {
		ts.agenda.startOver("an end counts in a job that was thought over: " + t.String())
		return
	}
	i := slices.IndexFunc(overtaken, func(o taskstate.TaskID) bool { return o.Job == t.Job && o.Slot == t.Slot })
	if i < 0 {
		ts.jobs.noLongerWaits(j, t.Slot)
		return
	}
	for _, p := range ts.peers.list() {
		if h, r, ok := p.find(overtaken[i]); ok {
			ts.given.add(overtaken[i])
			ts.giveUp(p, h, t.Slot, r, false, taskstate.ReasonOvertaken)
			return
		}
	}
	ts.agenda.startOver("an attempt was overtaken that was not known here: " + overtaken[i].String())
}

// noLongerWaits takes a slot that has got its end out of those that wait or are on their way to
// somebody.
func (js *jobs) noLongerWaits(j *jobState, slot int) {
	if !j.unwait(slot) {
		if j.early == nil {
			j.early = map[int]bool{}
		}
		j.early[slot] = true // its assignment will be refused
	}
	js.endJob(j)
}

// withoutEarly splits an assignment by what the ledger refused: those slots had got their end
// meanwhile, and what was promised for them is free again. ok is false if any other slot was
// refused.
func (ts *tasks) withoutEarly(p *peerState, h *holding, body *taskstate.Job, slots, refused []ledger.Slots) (kept []ledger.Slots, ok bool) {
	if len(refused) == 0 {
		return slots, true
	}
	no := map[int]bool{}
	for _, run := range refused {
		for n := range run.All() {
			switch {
			case h.job.early[n]:
			case h.job.lasting != nil: // another version of it is wanted by now
				h.job.waitAgain(n, run.Attempt)
			default:
				return nil, false
			}
			delete(h.job.early, n)
			no[n] = true
			p.promise(h, -1, body)
		}
	}
	for _, run := range slots {
		for n := range run.All() {
			if !no[n] {
				kept = appendRun(kept, ledger.Slots{First: n, N: 1, Attempt: run.Attempt})
			}
		}
	}
	ts.agenda.room()
	ts.jobs.enqueue(h.job) // its Parallel may have room again
	return kept, true
}
