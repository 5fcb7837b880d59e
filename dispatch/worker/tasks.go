package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"covey/dispatch/session"
	"covey/dispatch/worker/journal"
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

// heldJob is a job body and how many frames need it.
type heldJob struct {
	job    *taskstate.Job
	frames int
	onDisk bool
}

// heldFrame is one accepted set of assignments: it stays in the journal until its last task is
// acknowledged.
type heldFrame struct {
	record journal.Frame
	tasks  []*heldTask // until it is on disk
	jobs   []*heldJob
	left   int      // tasks not acknowledged
	done   []uint32 // positions acknowledged since the last transaction
	acks   []uint64 // keys of its done records
}

// instant tasks promise nothing, so nothing can make them wait. Work that must not run twice takes
// its turn all the same: it is marked as begun only when it is.
func (j *heldJob) instant() bool {
	return j.job.Resources == (taskstate.Resources{}) && !j.job.Unreachable.Wait
}

// hold makes a task known, as granted.
func (c *Core) hold(id taskstate.TaskID, j *heldJob, f *heldFrame, index uint64, item string) *heldTask {
	c.order++
	h := &heldTask{id: id, job: j, frame: f, pos: uint32(c.order - f.record.Base), order: c.order, item: item, since: time.UnixMilli(f.record.At)}
	if f.record.Number == 0 { // it is new: time passes by the monotonic clock
		h.since = c.now
	}
	h.status = taskstate.Status{Task: id, Seq: 1, State: taskstate.Accepted, Index: index, At: f.record.At, Exit: taskstate.NoExit}
	f.left++
	c.tasks[id] = h
	c.live++
	return h
}

// accept is called when a task's assignment is on disk.
func (c *Core) accept(h *heldTask) {
	switch {
	case h.phase != phaseGranted:
	case h.job.instant() && !c.stopping:
		c.start(h)
	default:
		h.phase = phaseQueued
		c.fresh = append(c.fresh, freshTask{h, c.now})
	}
}

func (c *Core) start(h *heldTask) {
	h.phase = phaseStarted
	h.waited = max(0, c.now.Sub(h.since).Milliseconds())
	c.used = c.used.Add(h.job.job.Resources)
	c.runs++
	c.do(Start{c.launchOf(h)})
}

func (c *Core) launchOf(h *heldTask) taskstate.Launch {
	return taskstate.Launch{
		Task: h.id, Job: h.job.job, Item: h.item, Epoch: h.frame.record.Epoch, Index: h.status.Index, Peer: string(c.self),
	}
}

// ran takes in what the runner reports.
func (c *Core) ran(reports []taskstate.RunReport) {
	for _, r := range reports {
		h := c.tasks[r.Task]
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
	c.touch(h)
}

// over ends a task.
func (c *Core) over(h *heldTask, s taskstate.Status) {
	if h.phase == phaseStarted {
		c.used = c.used.Sub(h.job.job.Resources)
		c.runs--
	}
	h.phase = phaseOver
	c.live--
	c.advance(h, s)
}

// finish ends a task that was not started.
func (c *Core) finish(h *heldTask, state taskstate.State, why taskstate.Reason, message string) {
	h.unbegun = h.phase != phaseStarted
	s := h.status
	s.State, s.At, s.Exit, s.Signal, s.Reason, s.Message = state, c.now.UnixMilli(), taskstate.NoExit, 0, why, message
	c.over(h, s)
}

// touch marks a task's newest status as not published.
func (c *Core) touch(h *heldTask) {
	if !h.dirty {
		h.dirty = true
		if len(c.dirty) == 0 {
			c.dirtySince = c.now
		}
		c.dirty = append(c.dirty, h)
	}
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

// detach answers SIGTERM: the peer will be back, so what runs goes on without it. What has not
// started need not wait for that.
func (c *Core) detach() {
	if c.stopping {
		return
	}
	c.stopping, c.detached = true, true
	c.handBack()
}

// stopAll answers a peer that leaves: whatever has not ended ends as interrupted, and the
// coordinator gives it to others.
func (c *Core) stopAll() {
	if c.stopping {
		return
	}
	c.stopping = true
	for _, h := range c.living() {
		if h.phase == phaseStarted {
			c.stop(h, taskstate.ReasonInterrupted)
		}
	}
	c.handBack()
}

// living lists what has not ended, in order of acceptance.
func (c *Core) living() []*heldTask {
	return slices.DeleteFunc(c.held(), func(h *heldTask) bool { return h.phase == phaseOver })
}

// held lists all tasks in order of acceptance.
func (c *Core) held() []*heldTask {
	hs := slices.Collect(maps.Values(c.tasks))
	slices.SortFunc(hs, func(a, b *heldTask) int { return cmp.Compare(a.order, b.order) })
	return hs
}

func (h *heldTask) String() string {
	return fmt.Sprintf("%v phase %d %v seq %d", h.id, h.phase, h.status.State, h.status.Seq)
}
