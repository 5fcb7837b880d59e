package coordinator

import (
	"errors"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// tasks are the attempts that peers have: how each ends, and is given up.
type tasks struct {
	heard    func(taskstate.TaskID) (taskstate.Status, bool) // may be nil
	clock    *clock.Clock
	agenda   *agenda
	outbox   *outbox
	peers    *peers
	jobs     *jobs
	sessions *sessions

	given givenUps // attempts whose end may still come
	began uint64   // index at which this generation of the ledger was recovered; 0: it is the first
}

// observe joins a worker's status into what is known of an open task, and tells whether its process
// has ended by it.
func (ts *tasks) observe(p *peerState, st *taskstate.Status) (over bool) {
	h, r, ok := p.find(st.Task)
	if !ok || !st.State.Valid() {
		return false
	}
	was := r.is(saving | ended)
	if !r.state.Final() {
		was := r.state
		if r.state = max(r.state, st.State); r.state >= taskstate.Starting {
			p.answered(&r)
			if was < taskstate.Starting && ts.peers.shunned(p) {
				p.shunned = time.Time{} // it does start what it has
				ts.agenda.place()
			}
		}
	}
	switch {
	case st.State.Final():
		ts.release(p, h, &r)
	case r.state == taskstate.Saving:
		ts.vacate(p, h, &r)
	case !r.is(saving | ended):
		ts.prepare(p, h, &r, r.state == taskstate.Preparing)
	}
	r.marks &^= inherited
	h.slots[st.Task.Slot] = r
	h.job.lasting.markStale()
	return !was && r.is(saving|ended)
}

// onDropped takes the worker's word that it does not have a task and never will: it wrote a
// tombstone first, or its disk takes nothing and it had not begun.
func (ts *tasks) onDropped(p *peerState, t taskstate.TaskID) {
	h, r, ok := p.find(t)
	if !ok || r.is(deciding) {
		return
	}
	started := r.state >= taskstate.Starting
	ts.release(p, h, &r)
	r.marks |= deciding
	h.slots[t.Slot] = r
	why := taskstate.ReasonDropped
	if p.offer.Trouble != "" {
		why = taskstate.ReasonStuck
	}
	ts.supersede(h, t, r, why, started)
}

// onEnd takes the end of a task and tells whether it was news that its process has ended.
func (ts *tasks) onEnd(s *workerSession, st *taskstate.Status, batch uint64) bool {
	p := s.p
	h, r, ok := p.find(st.Task)
	if !ok {
		ts.onLate(s, st, batch)
		return false
	}
	if _, late := p.late[st.Task]; late || r.batch != 0 {
		return false // ended twice: the first end stands
	}
	if r.is(deciding) && !r.is(ended) && st.State == taskstate.Complete && !h.job.cancelled {
		ts.justGivenUp(s, h, r, st, batch)
		return true
	}
	started := r.state >= taskstate.Running || st.State != taskstate.Rejected
	if givesBack(st.Reason) && !r.is(ended) && s.synced {
		p.stopping = ts.clock.Now().Add(stoppingFor) // it is giving its tasks back: they go elsewhere
		ts.clock.WakeAt(p.stopping)
	}
	was := r.is(saving)
	ts.release(p, h, &r)
	r.batch, r.state = batch, st.State
	s.acks.add()
	decided := r.is(deciding)
	r.marks |= deciding
	h.slots[st.Task.Slot] = r
	if decided {
		return false
	}
	if refusedByOwner(st) {
		started = false // it says so before anything runs
		h.job.owners.Refuses(p.id, &p.owner, h.job.body(int(r.version)), st.Message)
		ts.agenda.place()
	}
	if st.Reason == taskstate.ReasonNoRoom && int(r.version) == h.job.job.Version {
		ts.jobs.noteNoRoom(h.job, p, st.Message)
	}
	if ts.runsAgain(h, st, started) {
		ts.supersede(h, st.Task, r, st.Reason, started)
		return !was
	}
	ts.settle(p, st)
	return !was
}

// refusedByOwner tells whether a peer's owner did not let a task run there.
func refusedByOwner(st *taskstate.Status) bool {
	return st.State == taskstate.Rejected && st.Reason == taskstate.ReasonPolicy
}

// runsAgain tells whether an end came about through no fault of the task, so that its slot gets
// another attempt.
func (ts *tasks) runsAgain(h *holding, st *taskstate.Status, started bool) bool {
	switch st.Reason {
	case taskstate.ReasonOutputLost:
		if !h.job.lost.again(st.Task.Slot) {
			return false
		}
		fallthrough
	case taskstate.ReasonRecalled, taskstate.ReasonInterrupted, taskstate.ReasonDropped, taskstate.ReasonDrained, taskstate.ReasonStuck, taskstate.ReasonNoRoom, taskstate.ReasonPolicy:
		return st.State != taskstate.Complete && !h.job.cancelled && !h.job.leaves(st.Task.Slot) && !(h.job.job.Unreachable.Wait && started)
	}
	return false
}

// supersede gives an attempt up in the next proposal.
func (ts *tasks) supersede(h *holding, t taskstate.TaskID, r rec, why taskstate.Reason, started bool) {
	ts.outbox.supersede(ts.givenUp(h, t, r, why, started))
}

// givenUp is the decision to give an attempt up for a reason that is not the task's own: the slot
// gets another, unless the job was cancelled, or must not run twice and had started.
func (ts *tasks) givenUp(h *holding, t taskstate.TaskID, r rec, why taskstate.Reason, started bool) *ledger.Supersede {
	s := &ledger.Supersede{Task: t, Reason: why, Again: true}
	end := taskstate.Status{Task: t, Index: r.index, At: ts.clock.Now().UnixMilli(), Exit: taskstate.NoExit, Reason: why}
	switch {
	case h.job.cancelled:
		end.State, s.Again, s.Status = taskstate.Shutdown, false, &end
		end.Message = "the job was cancelled, and its worker did not have it any more"
		if why == taskstate.ReasonUnreachable {
			end.Message = "the job was cancelled while its peer could not be reached"
		}
	case h.job.job.Unreachable.Wait && started:
		end.State, s.Again, s.Status = taskstate.Orphaned, false, &end
		end.Message = "its end was not observed, and the job must not run twice"
	}
	return s
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

// giveUp mirrors what the ledger does when an open attempt ends without its worker. A worker that
// may still run it is told to stop.
func (ts *tasks) giveUp(p *peerState, h *holding, slot int, r rec, again bool, why taskstate.Reason) {
	t := taskstate.Task(h.job.id, slot, int(r.attempt))
	if s := p.session; s != nil && s.synced && !r.is(ended) {
		s.stops = append(s.stops, session.Stop{Task: t, Reason: why})
		ts.sessions.touch(s)
	}
	if again && !h.job.cancelled {
		ts.given.add(t)
	}
	ts.close(p, h, slot, r)
	ts.jobs.enqueue(h.job)
}

// giveUpTask gives up an open attempt, whichever peer has it.
func (ts *tasks) giveUpTask(j *jobState, t taskstate.TaskID, again bool, why taskstate.Reason) error {
	p, h := ts.peers.holder(j, t.Slot)
	if p == nil || int(h.slots[t.Slot].attempt) != t.Attempt {
		return errors.New("an attempt was given up that was not known here: " + t.String())
	}
	ts.giveUp(p, h, t.Slot, h.slots[t.Slot], again, why)
	return nil
}

// giveUpAll mirrors what happens to a peer's open tasks when it is removed, leaves or comes back as
// another incarnation. Ends that it told before, this coordinator or others, and that are not
// decided yet are decided as what they are now: late.
func (ts *tasks) giveUpAll(p *peerState) {
	ts.endsHeard(p)
	ts.keepTold(p)
	for _, h := range p.byAge() {
		for _, n := range h.sorted(func(rec) bool { return true }) {
			ts.giveUp(p, h, n, h.slots[n], !h.job.job.Unreachable.Wait, taskstate.ReasonInterrupted)
		}
	}
}

// giveUpSlots adds to cmds that the attempts of these slots are given up, but for those whose end
// is known. It stops, and says so in replacing, where one proposal ends.
func (ts *tasks) giveUpSlots(p *peerState, h *holding, slots []int, why taskstate.Reason, cmds []ledger.Command, size int) ([]ledger.Command, int) {
	for _, n := range slots {
		if size >= maxDecideSize {
			ts.agenda.replacing = true
			return cmds, size
		}
		if ts.endHeard(p, h, n) {
			continue
		}
		r := h.mark(n, deciding)
		t := taskstate.Task(h.job.id, n, int(r.attempt))
		cmds = append(cmds, ledger.Command{Supersede: ts.givenUp(h, t, r, why, false)})
		size += supersedeBytes
	}
	return cmds, size
}

// endsHeard has all ends decided that a worker told others and not this coordinator.
func (ts *tasks) endsHeard(p *peerState) {
	for _, h := range p.byAge() {
		for _, n := range h.sorted(func(r rec) bool { return !r.is(deciding) }) {
			ts.endHeard(p, h, n)
		}
	}
}

// endHeard has the end of an attempt decided that its worker told others and not this coordinator:
// people may have been told of it, and it is as good as one that came in the session.
func (ts *tasks) endHeard(p *peerState, h *holding, slot int) bool {
	if ts.heard == nil {
		return false
	}
	r := h.slots[slot]
	st, ok := ts.heard(taskstate.Task(h.job.id, slot, int(r.attempt)))
	if !ok || !st.State.Final() || ts.runsAgain(h, &st, r.state >= taskstate.Running || st.State != taskstate.Rejected) {
		return false
	}
	ts.release(p, h, &r)
	r.state = st.State
	r.marks |= deciding
	h.slots[slot] = r
	ts.settle(p, &st)
	return true
}

// lost tells whether what was decided about an assignment may be in a part of the ledger that was.
func (ts *tasks) lost(index uint64) bool { return index < ts.began }

// giveUpLost gives up what the recovered ledger says a worker has, and the worker has not: it never
// got there, or it ended and that was decided, and acknowledged to the worker, in the part of the
// ledger that was lost. It must not be sent again, because the same attempt would run twice: the
// slot gets another attempt, or, if its job must not run twice, ends.
func (ts *tasks) giveUpLost(p *peerState) {
	if ts.began == 0 {
		return
	}
	for _, h := range p.byAge() {
		for _, n := range h.sorted(func(r rec) bool { return r.is(inherited) && !r.is(deciding) }) {
			r := h.slots[n]
			ts.release(p, h, &r)
			r.marks |= deciding
			h.slots[n] = r
			ts.supersede(h, taskstate.Task(h.job.id, n, int(r.attempt)), r, taskstate.ReasonDropped, true)
		}
	}
}

// settle has an end decided with the next proposal that has room.
func (ts *tasks) settle(p *peerState, st *taskstate.Status) {
	if p.ends == nil {
		p.ends = &endQueue{peer: p.id, incarnation: p.member.Incarnation}
		ts.outbox.settle(p.ends)
	}
	p.ends.list = append(p.ends.list, *st)
}

// release frees what one ended task reserved.
func (ts *tasks) release(p *peerState, h *holding, r *rec) {
	if r.is(ended) {
		return
	}
	ts.vacate(p, h, r)
	r.marks = r.marks&^saving | ended
	p.saving--
	p.outstanding--
	ts.agenda.room() // the worker may hold another one
}

// prepare notes whether a task waits for its inputs.
func (ts *tasks) prepare(p *peerState, h *holding, r *rec, waits bool) {
	if waits == r.is(preparing) {
		return
	}
	r.marks ^= preparing
	n := 1
	if !waits {
		n = -1
	}
	need := h.job.body(int(r.version)).Resources
	h.job.preparing += n
	p.preparing, h.preparing = p.preparing.add(n, need), h.preparing.add(n, need)
	if waits {
		ts.agenda.room() // for others
	}
}

// vacate frees what the process of one task used, once that has ended. Its worker holds the task
// until its files are kept.
func (ts *tasks) vacate(p *peerState, h *holding, r *rec) {
	if r.is(saving | ended) {
		return
	}
	p.answered(r)
	ts.prepare(p, h, r, false)
	r.marks |= saving
	p.saving++
	p.use(h, -1, h.job.body(int(r.version)))
	ts.agenda.room()
	ts.jobs.enqueue(h.job) // its Parallel may have room again
}
