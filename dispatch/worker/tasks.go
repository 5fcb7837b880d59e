package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"covey/dispatch/session"
	"covey/taskstate"
)

// phase is where a held task stands.
type phase uint8

const (
	phaseGranted phase = iota // its frame is not on disk yet
	phaseParked               // from the journal, not begun: waits for a Complete set that confirms it
	phaseQueued
	phaseStarted
	phaseOver
)

type heldTask struct {
	id       taskstate.TaskID
	job      *heldJob
	frame    *heldFrame
	pos      uint32 // in frame
	phase    phase
	halted   bool // the runner was told to stop it
	unbegun  bool // it ended without having been started
	atWord   bool // the coordinator was told so in this session, before the disk knows
	dirty    bool
	onDisk   bool      // the journal has a live record of it
	order    uint64    // of acceptance
	since    time.Time // when it was taken on
	waited   int64     // milliseconds until it was started
	pass     uint64    // last Complete set that listed it
	end      uint64    // number of the batch on disk that tells its end
	lastSaid uint64    // number of the batch on disk that tells its newest status
	item     string
	status   taskstate.Status // newest
	durable  taskstate.Status // newest that is in the journal
}

func (h *heldTask) String() string {
	return fmt.Sprintf("%v phase %d %v seq %d", h.id, h.phase, h.status.State, h.status.Seq)
}

// said notes that a status is on disk, in batch number n.
func (h *heldTask) said(s taskstate.Status, n uint64) {
	h.durable, h.lastSaid = s, n
	if s.State.Final() {
		h.end = n
	}
}

// launch is what a runner needs to run it on this peer.
func (h *heldTask) launch(self taskstate.PeerID) taskstate.Launch {
	return taskstate.Launch{
		Task: h.id, Job: h.job.job, Item: h.item, Epoch: h.frame.record.Epoch, Index: h.status.Index, Peer: string(self),
	}
}

// tasks owns the tasks held here, from when they are granted until their end is acknowledged, and
// counts what those that run use. Only the core calls it.
type tasks struct {
	of    map[taskstate.TaskID]*heldTask
	order uint64 // of the newest
	used  taskstate.Resources
	runs  int // started tasks
	live  int // tasks that are not over
}

// add makes a task known, as granted.
func (ts *tasks) add(id taskstate.TaskID, j *heldJob, f *heldFrame, index uint64, item string, since time.Time) *heldTask {
	ts.order++
	h := &heldTask{id: id, job: j, frame: f, pos: uint32(ts.order - f.record.Base), order: ts.order, item: item, since: since}
	h.status = taskstate.Status{Task: id, Seq: 1, State: taskstate.Accepted, Index: index, At: f.record.At, Exit: taskstate.NoExit}
	f.left++
	ts.of[id] = h
	ts.live++
	return h
}

// begin counts a task as started.
func (ts *tasks) begin(h *heldTask) {
	h.phase = phaseStarted
	ts.used = ts.used.Add(h.job.job.Resources)
	ts.runs++
}

// free is what is left of an offer.
func (ts *tasks) free(of session.Offer) taskstate.Resources { return of.Resources.Sub(ts.used) }

// leave takes a task out of those that were started, if it is one, for another phase.
func (ts *tasks) leave(h *heldTask, to phase) {
	if h.phase == phaseStarted {
		ts.used = ts.used.Sub(h.job.job.Resources)
		ts.runs--
	}
	if to == phaseOver && h.phase != phaseOver {
		ts.live--
	}
	h.phase = to
}

// all lists the tasks in order of acceptance.
func (ts *tasks) all() []*heldTask {
	hs := slices.Collect(maps.Values(ts.of))
	slices.SortFunc(hs, func(a, b *heldTask) int { return cmp.Compare(a.order, b.order) })
	return hs
}

// living lists those that have not ended, in order of acceptance.
func (ts *tasks) living() []*heldTask {
	return slices.DeleteFunc(ts.all(), func(h *heldTask) bool { return h.phase == phaseOver })
}

// accept is called when a task's assignment is on disk.
func (c *Core) accept(h *heldTask) {
	switch {
	case h.phase != phaseGranted:
	case h.job.instant() && !c.stopping:
		c.start(h)
	default:
		c.accepted(h)
	}
}

func (c *Core) start(h *heldTask) {
	h.waited = max(0, c.now.Sub(h.since).Milliseconds())
	c.held.begin(h)
	c.do(Start{h.launch(c.self)})
}

// ran takes in what the runner reports.
func (c *Core) ran(reports []taskstate.RunReport) {
	for _, r := range reports {
		h := c.held.of[r.Task]
		if h == nil || h.phase != phaseStarted || !r.State.Valid() || r.State <= taskstate.Accepted {
			continue
		}
		s := h.status
		s.State, s.At, s.Exit, s.Signal, s.Reason, s.Message = r.State, r.At, r.Exit, r.Signal, r.Reason, r.Message
		s.Took, s.Truncated = max(0, r.Took), r.Truncated
		if s.At == 0 {
			s.At = c.now.UnixMilli()
		}
		switch {
		case r.State.Final():
			c.over(h, s)
		case r.State > h.status.State:
			c.advance(h, s)
		}
	}
}

// maxReason caps a reason in bytes.
const maxReason = 64

// advance gives a task its next status.
func (c *Core) advance(h *heldTask, s taskstate.Status) {
	s.Seq, s.Waited = h.status.Seq+1, h.waited
	s.Message = taskstate.ClipText(s.Message, taskstate.MaxMessage)
	s.Reason = taskstate.Reason(taskstate.ClipText(string(s.Reason), maxReason))
	h.status = s
	c.outbox.touch(h, c.now)
}

// over ends a task.
func (c *Core) over(h *heldTask, s taskstate.Status) {
	c.held.leave(h, phaseOver)
	c.advance(h, s)
}

// finish ends a task that was not started.
func (c *Core) finish(h *heldTask, state taskstate.State, why taskstate.Reason, message string) {
	h.unbegun = h.phase != phaseStarted
	s := h.status
	s.State, s.At, s.Exit, s.Signal, s.Reason, s.Message = state, c.now.UnixMilli(), taskstate.NoExit, 0, why, message
	c.over(h, s)
}

// stop ends a task by order: a started one through the runner, others at once.
func (c *Core) stop(h *heldTask, why taskstate.Reason) {
	switch {
	case h.phase == phaseOver || h.halted:
	case h.phase == phaseStarted:
		h.halted = true
		c.do(Halt{session.Stop{Task: h.id, Reason: why}})
	default:
		c.finish(h, taskstate.Shutdown, why, "stopped before it started")
	}
}

// recall gives a task back if it has not started.
func (c *Core) recall(h *heldTask) {
	if h.phase != phaseStarted && h.phase != phaseOver {
		c.finish(h, taskstate.Rejected, taskstate.ReasonRecalled, "")
	}
}
