package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// modelWorker is the least a worker must do, with everything it promises: what it was given it does
// once, what it ended it repeats until that is acknowledged, what it has not it never starts after
// it said so.
type modelWorker struct {
	m        *model
	id       string
	life     int
	cpus     int64
	up       bool // its process runs
	conn     ConnID
	seq      uint64 // set it has; 0 before the first Complete
	asked    bool
	welcomed bool
	parts    []*session.Assignments
	down     []session.Down // on their way here
	tasks    map[taskstate.TaskID]*modelTask
	order    []taskstate.TaskID
	tombs    map[taskstate.TaskID]bool
	jobs     map[session.BodyID]taskstate.Job
	batch    uint64
	acked    uint64
	unacked  []taskstate.Batch
	fresh    []taskstate.Status
	fence    taskstate.Epoch
	silent   bool // cut off: nothing passes, nothing is noticed
}

type modelTask struct {
	id    taskstate.TaskID
	index uint64
	state taskstate.State
	need  int64
	seq   uint64
	final taskstate.Status

	lasts   bool
	saves   bool
	version int
}

func (w *modelWorker) inc() taskstate.Incarnation {
	return taskstate.Incarnation(fmt.Sprintf("%s-%d", w.id, w.life))
}

func (w *modelWorker) say(t *modelTask, st taskstate.State, why taskstate.Reason) {
	if t.state.Final() {
		return
	}
	t.seq++
	t.state = st
	s := taskstate.Status{Task: t.id, Seq: t.seq, State: st, Index: t.index, Exit: taskstate.NoExit, Reason: why}
	t.final = s
	w.fresh = append(w.fresh, s)
}

// cut makes a batch of what has not been said and sends it.
func (w *modelWorker) cut() {
	if len(w.fresh) == 0 || !w.up {
		return
	}
	w.batch++
	b := taskstate.Batch{Author: w.id, Incarnation: w.inc(), Number: w.batch, Statuses: w.fresh}
	w.fresh = nil
	w.unacked = append(w.unacked, b)
	if w.conn != 0 && w.welcomed && !w.silent {
		w.m.step(SessionBatch{Conn: w.conn, Batch: b})
	}
}

// connect opens a session, as far as the coordinator lets it.
func (w *modelWorker) connect() {
	if !w.up || w.conn != 0 || w.silent {
		return
	}
	w.m.next++
	w.conn, w.seq, w.asked, w.welcomed, w.parts, w.down = w.m.next, 0, false, false, nil, nil
	w.m.conns[w.conn], w.m.names[w.conn] = w, w.id
	var tasks []taskstate.Status
	for _, t := range w.tasks {
		tasks = append(tasks, taskstate.Status{Task: t.id, Seq: t.seq, State: t.state, Index: t.index, Exit: taskstate.NoExit, Reason: t.final.Reason})
	}
	h := session.Hello{Incarnation: w.inc(), Fence: w.fence, Acked: w.acked, Last: w.batch}
	h.Offer.Resources.MilliCPU = w.cpus
	w.m.step(SessionOpened{Conn: w.conn, Peer: w.id, Hello: h})
	w.send(session.Up{Report: &session.Report{Tasks: tasks, Done: true}})
}

func (w *modelWorker) send(f session.Up) {
	if w.conn != 0 && !w.silent {
		w.m.step(SessionFrame{Conn: w.conn, Frame: f})
	}
}

// cutOff loses the stream: what was on its way is gone. told says whether the coordinator notices.
func (w *modelWorker) cutOff(told bool) {
	conn := w.conn
	w.conn, w.down = 0, nil
	delete(w.m.conns, conn)
	if told && conn != 0 {
		w.m.step(SessionClosed{Conn: conn})
	}
}

// receive takes the next frame that is on its way.
func (w *modelWorker) receive() {
	if len(w.down) == 0 || !w.up || w.silent {
		return
	}
	d := w.down[0]
	w.down = w.down[1:]
	switch {
	case d.Welcome != nil:
		if w.fence.Less(d.Welcome.Epoch) {
			w.fence = d.Welcome.Epoch
		}
		w.welcomed = true
		for _, b := range w.unacked {
			w.m.step(SessionBatch{Conn: w.conn, Batch: b})
		}
	case d.Beat != nil && !d.Beat.Held, d.Refuse != nil:
		w.cutOff(true)
	case d.Ack != nil:
		w.acknowledge(d.Ack.Batch)
	case d.Assignments != nil:
		w.assignments(d.Assignments)
	}
}

func (w *modelWorker) acknowledge(n uint64) {
	w.acked = max(w.acked, n)
	for len(w.unacked) > 0 && w.unacked[0].Number <= n {
		for _, s := range w.unacked[0].Statuses {
			if s.State.Final() {
				delete(w.tasks, s.Task)
			}
		}
		w.unacked = w.unacked[1:]
	}
}

func (w *modelWorker) assignments(a *session.Assignments) {
	if w.seq > 0 && a.ResultsIn <= w.seq {
		return // had that
	}
	if !a.Complete && a.AppliesTo != w.seq {
		if !w.asked {
			w.asked = true
			w.send(session.Up{Resync: &session.Resync{Have: w.seq}})
		}
		return
	}
	w.parts = append(w.parts, a)
	if a.More {
		return
	}
	listed := map[taskstate.TaskID]bool{}
	for _, p := range w.parts {
		w.part(p, listed)
	}
	if a.Complete {
		for _, id := range w.sorted() {
			if t := w.tasks[id]; !listed[id] {
				w.say(t, taskstate.Shutdown, taskstate.ReasonNone)
			}
		}
	}
	w.parts, w.seq, w.asked = nil, a.ResultsIn, false
}

func (w *modelWorker) part(a *session.Assignments, listed map[taskstate.TaskID]bool) {
	for _, j := range a.Jobs {
		w.jobs[session.BodyOf(&j)] = j
	}
	var dropped []taskstate.TaskID
	for _, g := range a.Grants {
		job, ok := w.jobs[g.Body()]
		if !ok {
			w.m.fail("%s was granted %s without the job", w.id, g.Job)
		}
		for _, run := range g.Slots {
			for n := range run.All() {
				id := taskstate.Task(g.Job, n, run.Attempt)
				listed[id] = true
				if w.tombs[id] {
					dropped = append(dropped, id)
				} else if w.tasks[id] == nil {
					w.tasks[id] = &modelTask{id: id, index: g.Index, state: taskstate.Accepted, need: job.Resources.MilliCPU, lasts: job.Type.Lasts(), saves: job.Saves(), version: job.Version}
					w.order = append(w.order, id)
				}
			}
		}
	}
	for _, s := range a.Stop {
		listed[s.Task] = true
		if t := w.tasks[s.Task]; t != nil {
			w.say(t, taskstate.Shutdown, s.Reason)
		} else {
			w.tombs[s.Task] = true
			dropped = append(dropped, s.Task)
		}
	}
	for _, id := range a.Recall {
		if t := w.tasks[id]; t != nil && t.state == taskstate.Accepted {
			w.say(t, taskstate.Rejected, taskstate.ReasonRecalled)
		}
	}
	if len(dropped) > 0 {
		w.send(session.Up{Dropped: &session.Dropped{Tasks: dropped}})
	}
}

// sorted lists the tasks here in the order they came.
func (w *modelWorker) sorted() []taskstate.TaskID {
	w.order = slices.DeleteFunc(w.order, func(id taskstate.TaskID) bool { return w.tasks[id] == nil })
	return slices.Clone(w.order)
}

// work starts what fits and ends up to n tasks.
func (w *modelWorker) work(n int) {
	if !w.up {
		return
	}
	used := int64(0)
	for _, t := range w.tasks {
		if t.state == taskstate.Running {
			used += t.need
		}
	}
	for _, id := range w.sorted() {
		t := w.tasks[id]
		if t.state == taskstate.Accepted && used+t.need <= w.cpus {
			used += t.need
			w.say(t, taskstate.Running, taskstate.ReasonNone)
			w.m.started(w, id)
		}
	}
	for _, id := range w.sorted() {
		switch t := w.tasks[id]; {
		case n <= 0:
		case t.state == taskstate.Running && t.saves:
			w.say(t, taskstate.Saving, taskstate.ReasonNone)
			n--
		case t.state == taskstate.Running && !t.lasts, t.state == taskstate.Saving:
			w.say(t, taskstate.Complete, taskstate.ReasonNone)
			w.m.completed[id]++
			n--
		}
	}
}

// crash ends the process; what ran is interrupted, what waited waits on.
func (w *modelWorker) crash(told bool) {
	if !w.up {
		return
	}
	w.up = false
	w.fresh = nil // not journaled yet; found out again below
	for _, id := range w.sorted() {
		t := w.tasks[id]
		if t.state == taskstate.Running {
			w.say(t, taskstate.Failed, taskstate.ReasonInterrupted)
		} else if t.state.Final() && !w.batched(id) {
			w.fresh = append(w.fresh, t.final)
		}
	}
	w.cutOff(told)
}

func (w *modelWorker) batched(id taskstate.TaskID) bool {
	return slices.ContainsFunc(w.unacked, func(b taskstate.Batch) bool {
		return slices.ContainsFunc(b.Statuses, func(s taskstate.Status) bool { return s.Task == id && s.State.Final() })
	})
}

// loseDisk makes the peer come back as another incarnation.
func (w *modelWorker) loseDisk() {
	w.crash(true)
	w.life++
	w.wipe()
}

func (w *modelWorker) wipe() {
	w.tasks, w.tombs, w.jobs = map[taskstate.TaskID]*modelTask{}, map[taskstate.TaskID]bool{}, map[session.BodyID]taskstate.Job{}
	w.order, w.unacked, w.fresh, w.batch, w.acked = nil, nil, nil, 0, 0
}

// model is a small cluster around one core.
type model struct {
	*rig
	workers   []*modelWorker
	conns     map[ConnID]*modelWorker
	jobs      []taskstate.Job
	runs      map[taskstate.TaskID]int // by slot (attempt 0): how many attempts started
	completed map[taskstate.TaskID]int
	cancelled map[taskstate.JobID]bool
	fail      func(string, ...any)
	verdicts  map[string]PeerVerdict
}

func newModel(r *rig, fail func(string, ...any)) *model {
	m := &model{
		rig: r, conns: map[ConnID]*modelWorker{}, runs: map[taskstate.TaskID]int{}, completed: map[taskstate.TaskID]int{},
		cancelled: map[taskstate.JobID]bool{}, fail: fail, verdicts: map[string]PeerVerdict{},
	}
	r.seen = m.effect
	for i := range 3 {
		w := &modelWorker{m: m, id: fmt.Sprintf("w%d", i), cpus: 2000, up: true}
		w.wipe()
		m.workers = append(m.workers, w)
		r.apply(ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: w.id, Roles: admission.AllRoles()}}})
	}
	return m
}

// effect delivers what the core wants, checking what must always hold.
func (m *model) effect(ef Effect) {
	switch ef := ef.(type) {
	case SendDown:
		w := m.conns[ef.Conn]
		if w == nil || w.conn != ef.Conn {
			return
		}
		if a := ef.Frame.Assignments; a != nil {
			m.checkGrants(w, a)
		}
		w.down = append(w.down, ef.Frame)
	case EndSession:
		if w := m.conns[ef.Conn]; w != nil && w.conn == ef.Conn && !w.silent {
			// What was sent before still arrives; a Refuse is all that matters of it.
			w.cutOff(false)
		}
	case ProposeCommands:
		for _, c := range ef.Commands {
			m.checkCommand(c)
		}
	case ProbePeer:
		// answered by the driver, between steps
	}
}

// checkGrants: nobody is granted what the ledger did not give him.
func (m *model) checkGrants(w *modelWorker, a *session.Assignments) {
	for _, g := range a.Grants {
		for _, run := range g.Slots {
			id := taskstate.Task(g.Job, run.First, run.Attempt)
			peer, inc, index, st := m.state.Assigned(id)
			if peer != w.id || inc != w.inc() || index != g.Index || st != taskstate.Known {
				m.fail("%s was granted %s@%d, which the ledger gave to %s@%d (%v)", w.id, id, g.Index, peer, index, st)
			}
		}
	}
}

// checkCommand: nothing is given up without the reason it names.
func (m *model) checkCommand(c ledger.Command) {
	s := c.Supersede
	if s == nil || s.Reason != taskstate.ReasonUnreachable {
		return
	}
	if s.Again && m.mostVanished() {
		m.fail("%s was given up although all others vanished within a minute", s.Task)
	}
	peer, _, _, _ := m.state.Assigned(s.Task)
	j, _ := m.state.Job(s.Task.Job)
	v := m.verdicts[peer]
	after := time.Duration(j.Job().Unreachable.ReplaceAfter) * time.Millisecond
	_, _, cancelled := j.Cancelled()
	switch p := m.core.peers.of(peer); {
	case p != nil && p.session != nil && p.session.welcomed:
		m.fail("%s was given up on %s, which has a session", s.Task, peer)
	case v.Verdict == verdict.Dead && !cancelled && (m.now.Before(v.Since.Add(after)) || j.Job().Unreachable.Wait):
		m.fail("%s was given up on %s %v after the verdict, its job allows %v (wait %t)", s.Task, peer, m.now.Sub(v.Since), after, j.Job().Unreachable.Wait)
	case v.Verdict == verdict.Alive || v.Verdict == verdict.Suspect:
		m.fail("%s was given up on %s, which is %v", s.Task, peer, v.Verdict)
	}
}

// mostVanished tells whether every other peer is doubted or dead without a session, and all that
// began within a minute.
func (m *model) mostVanished() bool {
	var first, last time.Time
	for i, w := range m.workers {
		v, p := m.verdicts[w.id], m.core.peers.of(w.id)
		if v.Verdict != verdict.Dead && v.Verdict != verdict.Suspect || p == nil || p.member.Left || p.session != nil || p.confirmedGone {
			return false
		}
		if i == 0 || v.Since.Before(first) {
			first = v.Since
		}
		last = later(last, v.Since)
	}
	return last.Sub(first) <= time.Minute
}

func (m *model) started(w *modelWorker, id taskstate.TaskID) {
	slot := taskstate.Task(id.Job, id.Slot, 0)
	m.runs[slot]++
	for _, j := range m.jobs {
		if j.ID == id.Job && j.Unreachable.Wait && m.runs[slot] > 1 {
			m.fail("%s of a job that waits started on %s for the %d. time", slot, w.id, m.runs[slot])
		}
	}
}

func (m *model) verdict(peer string, v verdict.Verdict) {
	if m.verdicts[peer].Verdict == v {
		return
	}
	ev := PeerVerdict{Peer: peer, Verdict: v, Since: m.now}
	m.verdicts[peer] = ev
	m.step(ev)
}

// check adds to the rig's checks: promises never exceed the offer by more than the queue.
func (m *model) checkPromises() {
	for _, p := range m.core.peers.list() {
		most := int64(m.core.cfg.MaxAhead) * 2000
		if p.session != nil && p.promised.MilliCPU > p.offer.Resources.MilliCPU+most {
			m.fail("peer %s: %d promised of %d", p.id, p.promised.MilliCPU, p.offer.Resources.MilliCPU)
		}
	}
}

// beat keeps the sessions of the living alive.
func (m *model) beat() {
	for _, w := range m.workers {
		if w.up {
			before := m.take()
			w.send(session.Up{Beat: &session.Beat{}})
			after := m.take()
			m.out.WriteString(before)
			if strings.Count(after, "\n") > 1 {
				m.out.WriteString(after)
			}
		}
	}
}
