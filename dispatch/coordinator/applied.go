package coordinator

import (
	"errors"
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// onApplied is the way of a decided entry back into the core. What a command means, ledger.State
// has decided, and the command's result says it; here the owner of the state takes that over.
func (c *Core) onApplied(ev LedgerApplied) {
	if ev.Entry.Index <= c.clock.Index() {
		return
	}
	c.clock.Heard(ev.Entry.Index, ev.Entry.Stamp)
	for i := range ev.Results {
		if err := c.follow(&ev.Entry.Commands[i], &ev.Results[i], ev.Entry.Index); err != nil {
			// What was decided cannot be, by what is known here: the next core begins from the
			// ledger.
			c.agenda.do(StartOver{Why: err.Error()})
			return
		}
	}
}

// follow takes a command over in four steps.
func (c *Core) follow(cmd *ledger.Command, r *ledger.Result, index uint64) error {
	c.begin(r)
	if err := c.wait(cmd, r); err != nil { // before what made it wait ends: no job is over in between
		return err
	}
	if err := c.apply(cmd, r, index); err != nil {
		return err
	}
	c.proceed(r)
	return nil
}

// begin takes up jobs that were over and go on, and learns whose the new slots of one are.
func (c *Core) begin(r *ledger.Result) {
	if o := r.Reopened; o != nil && c.jobs.of(o.Job.ID) == nil {
		c.jobs.takeUp(o)
	}
	for _, o := range r.Along {
		if c.jobs.of(o.Job.ID) == nil {
			c.jobs.takeUp(o)
		}
	}
	c.upkeep.pin(r.Now)
}

// wait has slots wait for the attempts that come next.
func (c *Core) wait(cmd *ledger.Command, r *ledger.Result) error {
	for _, a := range r.Again {
		if err := c.jobs.waits(a, cmd.Renew != nil); err != nil {
			return err
		}
	}
	return nil
}

// apply hands a command to the owner of what it is about.
func (c *Core) apply(cmd *ledger.Command, r *ledger.Result, index uint64) error {
	tasks := cmd.Settle != nil || cmd.Assign != nil || cmd.Supersede != nil
	switch {
	case cmd.Submit != nil:
		c.jobs.appliedSubmit(cmd.Submit.Job.ID, r.Now)
	case r.Refused == ledger.CodeStale && tasks:
		return errors.New("a decision was refused as stale")
	case r.Refused == ledger.CodeStale:
	case tasks:
		return c.tasks.applied(cmd, r, index)
	case cmd.Register != nil:
		c.appliedRegister(cmd.Register, r)
	case c.upkeep.applied(cmd, r): // also what was refused – it is not under way any more – or only partly done
	case r.Refused != ledger.CodeNone || r.Existed:
	case cmd.Cancel != nil:
		c.tasks.appliedCancel(cmd.Cancel.Job)
	case cmd.Set != nil:
		c.sessions.appliedSet(cmd.Set)
	case cmd.Remove != nil:
		c.appliedRemove(cmd.Remove)
	case cmd.Depart != nil:
		if p := c.gone(cmd.Depart.Peer); p != nil {
			c.peers.know(r.Member)
		}
	case r.Member != nil:
		c.peers.know(r.Member)
	}
	return nil
}

// appliedRemove forgets a member, but for its roles unless its key was revoked.
func (c *Core) appliedRemove(cmd *ledger.Remove) {
	p := c.gone(cmd.Peer)
	if p == nil { // it was removed before
		if cmd.Revoke {
			c.peers.part(&ledger.Member{Entry: admission.Entry{Peer: cmd.Peer}}, true)
		}
		return
	}
	if p.session != nil {
		c.sessions.endSession(p.session, "removed from the cluster")
	}
	c.peers.part(&p.member, cmd.Revoke)
	c.peers.dropPeer(p)
}

// proceed has what waits now stand in line, cancels the jobs that a command cut, and lets go on
// those that it released.
func (c *Core) proceed(r *ledger.Result) {
	for _, a := range r.Again {
		if j := c.jobs.of(a.Job); j != nil {
			c.jobs.enqueue(j)
		}
	}
	for _, id := range r.Cut {
		c.tasks.appliedCancel(id)
	}
	for _, id := range r.Released {
		if j := c.jobs.of(id); j != nil {
			j.blocked = false
			c.jobs.enqueue(j)
		}
	}
}

// gone gives up all that a member has which is one no more, or has left.
func (c *Core) gone(id taskstate.PeerID) *peerState {
	p := c.peers.of(id)
	if p != nil {
		c.tasks.giveUpAll(p)
	}
	return p
}

func (ts *tasks) applied(cmd *ledger.Command, r *ledger.Result, index uint64) error {
	switch {
	case cmd.Settle != nil:
		return ts.appliedSettle(cmd.Settle, r)
	case cmd.Assign != nil:
		return ts.appliedAssign(cmd.Assign, r, index)
	}
	return ts.appliedSupersede(cmd.Supersede, r)
}

// appliedSubmit begins to drive a job, if it was accepted.
func (js *jobs) appliedSubmit(id taskstate.JobID, o *ledger.Outline) {
	js.schedules.decided(id)
	if o == nil {
		return
	}
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
func (ts *tasks) appliedAssign(a *ledger.Assign, r *ledger.Result, index uint64) error {
	j, p := ts.jobs.of(a.Job), ts.peers.of(a.Peer)
	if p != nil {
		ts.sessions.assigned(p)
	}
	refused := r.Refused != ledger.CodeNone && r.Refused != ledger.CodePartly
	switch {
	case (j == nil || p == nil) && r.Refused != ledger.CodeUnknown && r.Refused != ledger.CodeOver:
		return errors.New("an assignment was applied for a job or peer that is not known here")
	case j == nil:
		return nil
	case !j.landed(a):
		return errors.New("an assignment was decided that this core did not propose")
	case refused:
		ts.assignRefused(j, p, a)
		return nil
	}
	h, body := p.hold(j), j.body(a.Version)
	slots, ok := ts.withoutEarly(p, h, body, a.Slots, r.Slots)
	if !ok {
		return errors.New("slots that were thought to wait did not")
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
		ts.sessions.touch(s)
	}
	if j.cancelled {
		ts.sessions.stopAll(p, h)
	}
	if p.standing == Unreachable {
		ts.clock.WakeAt(ts.clock.Now()) // it went away meanwhile
	}
	ts.jobs.endJob(j)
	return nil
}

// assigned counts an assignment to p as no longer under way; who waits to be let go may have waited
// for it.
func (ss *sessions) assigned(p *peerState) {
	p.assigning = max(0, p.assigning-1)
	if p.session != nil && p.session.leaving {
		ss.touch(p.session)
	}
}

// assignRefused takes an assignment back: the peer went away or the job was cancelled while it was
// under way. p is nil if the peer was removed.
func (ts *tasks) assignRefused(j *jobState, p *peerState, a *ledger.Assign) {
	for _, run := range a.Slots {
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
func (ts *tasks) appliedSettle(s *ledger.Settle, r *ledger.Result) error {
	p := ts.peers.of(s.Peer) // nil: it was removed, and may have told of a success before
	refused := r.Statuses
	var h *holding
	for i := range s.Statuses {
		t := s.Statuses[i].Task
		ts.lateDecided(p, t)
		no := len(refused) > 0 && refused[0] == t // decided before in another way, and followed then
		if no {
			refused = refused[1:]
		}
		if p != nil && (h == nil || h.job.id != t.Job) {
			h = p.holds[t.Job]
		}
		var rc rec
		open := false
		if h != nil {
			rc, open = h.slots[t.Slot]
			open = open && int(rc.attempt) == t.Attempt
		}
		switch {
		case no && open && s.Incarnation == p.member.Incarnation:
			return errors.New("an end was refused for " + t.String() + ", which was thought open")
		case no:
		case open:
			ts.jobs.ended(p, h, &s.Statuses[i], rc)
			ts.close(p, h, t.Slot, rc)
		default:
			if err := ts.appliedLate(t, r.Overtaken); err != nil {
				return err
			}
		}
	}
	return nil
}

// appliedSupersede gives an attempt up: its slot waits again, or has its end.
func (ts *tasks) appliedSupersede(s *ledger.Supersede, r *ledger.Result) error {
	j := ts.jobs.of(s.Task.Job)
	if j == nil || r.Refused != ledger.CodeNone {
		return nil
	}
	return ts.giveUpTask(j, s.Task, s.Again, s.Reason)
}

// appliedRegister knows the life a peer is in now, and lets a session go on that waited for it.
func (c *Core) appliedRegister(reg *ledger.Register, r *ledger.Result) {
	p := c.peers.of(reg.Peer)
	if p == nil {
		return
	}
	if r.Refused == ledger.CodeNone && !r.Existed {
		if p.member.Incarnation != reg.Incarnation {
			c.tasks.giveUpAll(p)
			p.fence(p.member.Incarnation)
		}
		c.peers.know(r.Member)
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

// appliedCancel stops a job: what waits is over, what is open is stopped wherever a session is up;
// elsewhere it is stopped when the worker comes back.
func (ts *tasks) appliedCancel(id taskstate.JobID) {
	j := ts.jobs.of(id)
	if j == nil {
		return
	}
	j.cancelled = true
	j.groups, j.later, j.leaving = nil, nil, nil
	for _, p := range ts.peers.list() {
		if h := p.holds[id]; h != nil {
			ts.sessions.stopAll(p, h)
			if p.standing == Unreachable {
				ts.clock.WakeAt(ts.clock.Now())
			}
		}
	}
	ts.jobs.endJob(j)
}

// appliedLate follows a success that came back and counts: the attempt that took its place is over.
func (ts *tasks) appliedLate(t taskstate.TaskID, overtaken []taskstate.TaskID) error {
	ts.given.drop(t)
	j := ts.jobs.of(t.Job)
	if j == nil {
		return errors.New("an end counts in a job that was thought over: " + t.String())
	}
	i := slices.IndexFunc(overtaken, func(o taskstate.TaskID) bool { return o.Job == t.Job && o.Slot == t.Slot })
	if i < 0 {
		ts.jobs.noLongerWaits(j, t.Slot)
		return nil
	}
	ts.given.add(overtaken[i])
	return ts.giveUpTask(j, overtaken[i], false, taskstate.ReasonOvertaken)
}

// noLongerWaits takes a slot that has got its end out of those that wait or are on their way to
// somebody.
func (js *jobs) noLongerWaits(j *jobState, slot int) {
	if !j.unwait(slot) {
		j.endEarly(slot) // its assignment will be refused
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
				kept = ledger.AppendSlots(kept, ledger.Slots{First: n, N: 1, Attempt: run.Attempt})
			}
		}
	}
	ts.agenda.room()
	ts.jobs.enqueue(h.job) // its Parallel may have room again
	return kept, true
}
