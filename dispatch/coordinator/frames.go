package coordinator

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// flush sends what the step gathered, for each session in as few frames as it takes.
func (ss *sessions) flush() {
	for _, s := range ss.touched {
		if ss.open[s.conn] != s {
			continue
		}
		s.touched = false
		if s.complete {
			ss.flushComplete(s)
			ss.flushStops(s)
		} else if s.synced {
			ss.flushChanges(s)
		}
		s.complete, s.grants, s.stops, s.recalls = false, nil, nil, nil
		if s.welcomed && s.acks.base > s.acked {
			s.acked = s.acks.base
			ss.agenda.do(SendDown{Conn: s.conn, Frame: session.Down{Ack: &session.Ack{Batch: s.acked}}})
		}
		ss.letGo(s)
	}
	ss.touched = ss.touched[:0]
}

// letGo answers a Goodbye once no assignment to the worker is under way: those decided were sent
// before.
func (ss *sessions) letGo(s *workerSession) {
	if s.leaving && s.synced && !s.released && s.p.assigning == 0 {
		s.released = true
		ss.agenda.do(SendDown{Conn: s.conn, Frame: session.Down{Released: &session.Released{}}})
	}
}

// flushComplete sends everything the worker should have. Tasks of a cancelled job are not granted
// but stopped: a worker that has them ends them with the right reason, one that has not writes a
// tombstone and says so.
func (ss *sessions) flushComplete(s *workerSession) {
	s.seq++
	clear(s.jobs) // a worker that asks anew may have dropped them
	f := framer{ss: ss, s: s, head: session.Assignments{Complete: true, ResultsIn: s.seq, Epoch: ss.epoch}}
	for _, h := range s.p.byAge() {
		if h.job.cancelled {
			for _, n := range h.sorted(func(r rec) bool { return !r.is(ended | inherited) }) {
				f.end(h, n, taskstate.ReasonCancelled)
			}
			continue
		}
		for _, g := range h.runsOf(func(n int, r rec) bool { return !r.is(inherited) && !r.returned() && !h.job.leaves(n) }) {
			f.grant(g)
		}
		h.stopLeaving(&f)
	}
	for _, t := range s.recalls {
		f.recall(t)
	}
	f.finish()
}

// flushStops sends, after a Complete set, what is to be stopped of what it gave: tasks on a peer
// that was drained while it was away.
func (ss *sessions) flushStops(s *workerSession) {
	f := framer{ss: ss, s: s, head: session.Assignments{Epoch: ss.epoch}}
	for _, st := range s.stops {
		if h, r, ok := s.p.find(st.Task); ok && !r.is(inherited) && !h.job.cancelled && !h.job.leaves(st.Task.Slot) {
			f.stop(st)
		}
	}
	f.finish()
}

// flushChanges sends what changed since the last set: grants first, in frames of their own, so that
// a stop never comes before what it stops.
func (ss *sessions) flushChanges(s *workerSession) {
	f := framer{ss: ss, s: s, head: session.Assignments{Epoch: ss.epoch}}
	for _, g := range s.grants {
		f.grant(g)
	}
	if len(s.stops)+len(s.recalls) > 0 {
		f.send(false)
	}
	for _, st := range s.stops {
		f.stop(st)
	}
	for _, t := range s.recalls {
		f.recall(t)
	}
	f.finish()
}

// framer packs assignments into frames below the budget.
type framer struct {
	ss   *sessions
	s    *workerSession
	head session.Assignments // what every frame of this set carries
	a    session.Assignments
	size int
}

// Estimated bytes of what a frame holds.
const (
	grantBytes = 64
	runBytes   = 20
	taskBytes  = 64
)

func (f *framer) room(n int) {
	if f.size > 0 && f.size+n > f.ss.cfg.FrameBudget {
		f.send(true)
	}
	f.size += n
}

// grant adds a piece, cut where the items of its slots fill a frame.
func (f *framer) grant(g grantPiece) {
	j := g.job
	if !f.s.has(g.body) {
		f.room(j.bytes(g.body))
		job := *g.body
		job.Each = nil
		f.a.Jobs = append(f.a.Jobs, job)
		f.s.jobs[session.BodyOf(g.body)] = signedAt(g.body)
	}
	f.room(grantBytes)
	out := session.Grant{Job: j.id, Index: g.index, Version: g.body.Version}
	proof := j.proofBytes(g.body)
	cut := func(n int) {
		if f.size+n > f.ss.cfg.FrameBudget && len(out.Slots) > 0 {
			f.add(g, out)
			f.send(true)
			out = session.Grant{Job: j.id, Index: g.index, Version: g.body.Version}
		}
		f.size += n
	}
	for _, run := range g.slots {
		if len(g.body.Each) == 0 {
			cut(runBytes)
			out.Slots = append(out.Slots, run)
			continue
		}
		f.size += proof
		for n := range run.All() {
			item := g.body.Item(n)
			cut(len(item) + runBytes)
			out.Slots = ledger.AppendSlots(out.Slots, ledger.Slots{First: n, N: 1, Attempt: run.Attempt})
			out.Items = append(out.Items, item)
		}
	}
	f.add(g, out)
}

// add puts a grant into the frame, with the proof of its items.
func (f *framer) add(g grantPiece, out session.Grant) {
	if tree := g.job.itemTree(g.body); tree != nil {
		out.Prove(tree)
	}
	f.a.Grants = append(f.a.Grants, out)
}

func (f *framer) stop(s session.Stop) {
	f.room(taskBytes)
	f.a.Stop = append(f.a.Stop, s)
}

// end stops a task that the worker should have.
func (f *framer) end(h *holding, slot int, why taskstate.Reason) {
	r := h.mark(slot, stopped)
	f.stop(session.Stop{Task: taskstate.Task(h.job.id, slot, int(r.attempt)), Reason: why})
}

func (f *framer) recall(t taskstate.TaskID) {
	f.room(taskBytes)
	f.a.Recall = append(f.a.Recall, t)
}

func (f *framer) finish() { f.send(false) }

// send puts the frame out if it says anything. In a Complete set even an empty one does, and all
// but the last have More set; incremental frames are each a set of their own.
func (f *framer) send(more bool) {
	empty := len(f.a.Jobs)+len(f.a.Grants)+len(f.a.Stop)+len(f.a.Recall) == 0
	if !f.head.Complete && empty {
		f.size = 0
		return
	}
	a := f.a
	a.Complete, a.Epoch = f.head.Complete, f.head.Epoch
	if a.Complete {
		a.More, a.ResultsIn = more, f.head.ResultsIn
	} else {
		a.AppliesTo = f.s.seq
		f.s.seq++
		a.ResultsIn = f.s.seq
	}
	f.a, f.size = session.Assignments{}, 0
	f.ss.agenda.do(SendDown{Conn: f.s.conn, Frame: session.Down{Assignments: &a}})
}

// stop tells a peer, whose session is in sync, to stop a task.
func (ss *sessions) stop(p *peerState, h *holding, slot int, why taskstate.Reason) {
	r := h.mark(slot, stopped)
	p.session.stops = append(p.session.stops, session.Stop{Task: taskstate.Task(h.job.id, slot, int(r.attempt)), Reason: why})
	ss.touch(p.session)
}

// stopAll tells a peer to stop all it has of a job, if its session is in sync.
func (ss *sessions) stopAll(p *peerState, h *holding) {
	if p.session == nil || !p.session.synced {
		return
	}
	for _, n := range h.sorted(func(r rec) bool { return !r.is(ended | stopped) }) {
		ss.stop(p, h, n, taskstate.ReasonCancelled)
	}
}

// stopLeaving tells a peer to stop a task that leaves, if its session is in sync.
func (ss *sessions) stopLeaving(p *peerState, h *holding, slot int) {
	if r, open := h.slots[slot]; p.session != nil && p.session.synced && open && !r.is(ended|stopped) {
		ss.stop(p, h, slot, h.job.leaving[slot].why)
	}
}

// recallSlots asks a peer, whose session is in sync, to give these back if they have not started.
func (ss *sessions) recallSlots(p *peerState, h *holding, slots ...int) {
	for _, n := range slots {
		r := h.mark(n, recalled)
		p.recalling++
		p.session.recalls = append(p.session.recalls, taskstate.Task(h.job.id, n, int(r.attempt)))
		ss.touch(p.session)
	}
}

// stepDrains empties the peers that are to be empty of batch tasks: what waits there at once, what
// runs after the grace.
func (ss *sessions) stepDrains() {
	for _, p := range ss.peers.list() {
		if !p.drained() || p.session == nil || !p.session.synced {
			continue
		}
		over := !ss.clock.Now().Before(p.endless)
		if !over && p.outstanding > 0 {
			ss.clock.WakeAt(p.endless)
		}
		for _, h := range p.byAge() {
			if h.job.lasting == nil {
				ss.drain(p, h, over)
			}
		}
	}
}

// drain takes a batch job's tasks back from a peer: those that have not begun, or all whose process
// has not ended. What is only being saved runs nothing, and is done with in minutes.
func (ss *sessions) drain(p *peerState, h *holding, all bool) {
	if all {
		for _, n := range h.sorted(func(r rec) bool { return !r.is(ended | stopped | deciding | saving) }) {
			ss.stop(p, h, n, taskstate.ReasonDrained)
		}
		return
	}
	ss.recallSlots(p, h, h.sorted(rec.idle)...)
}

// stopLeaving puts into a Complete set what is to be stopped. Like the tasks of a cancelled job
// they are not granted: a worker that has them ends them with the right reason, one that has not
// says so.
func (h *holding) stopLeaving(f *framer) {
	if len(h.job.leaving) == 0 {
		return
	}
	slots := h.sorted(func(r rec) bool { return !r.is(ended | inherited) })
	for _, n := range slices.DeleteFunc(slots, func(n int) bool { return !h.job.leaves(n) }) {
		f.end(h, n, h.job.leaving[n].why)
	}
}
