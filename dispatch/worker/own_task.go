package worker

import (
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// phase is where a held task stands.
type phase uint8

const (
	phaseGranted phase = iota // its frame is not on disk yet
	phaseParked               // from the journal, not begun: waits for a Complete set that confirms it
	phaseQueued
	phaseStarted
	phaseSaving // its process has ended, and what it left is being kept: it uses nothing any more
	phaseOver
)

// begun tells whether the runner has the task: what is to become of it is the runner's to say.
func (p phase) begun() bool { return p == phaseStarted || p == phaseSaving }

type ownTask struct {
	id       taskstate.TaskID
	job      *ownJob
	frame    *ownFrame
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
	forged   bool             // the item is not proven to be what was signed
	status   taskstate.Status // newest
	durable  taskstate.Status // newest that is in the journal
}

func (h *ownTask) String() string {
	return fmt.Sprintf("%v phase %d %v seq %d", h.id, h.phase, h.status.State, h.status.Seq)
}

// said notes that a status is on disk, in batch number n.
func (h *ownTask) said(s taskstate.Status, n uint64) {
	h.durable, h.lastSaid = s, n
	if s.State.Final() {
		h.end = n
	}
}

// launch is what a runner needs to run it on this peer.
func (h *ownTask) launch(self taskstate.PeerID) taskstate.Launch {
	l := taskstate.Launch{
		Task: h.id, Job: h.job.job, Item: h.item, Epoch: h.frame.record.Epoch, Index: h.status.Index, Peer: string(self),
	}
	if h.forged {
		l.Unproven = taskstate.ErrItems.Error()
	}
	return l
}

// relaunch is launch after a restart, with what the journal knows of the life before.
func (h *ownTask) relaunch(self taskstate.PeerID) taskstate.Launch {
	l, s := h.launch(self), h.durable
	switch s.State {
	case taskstate.Running:
		l.Since = s.At
	case taskstate.Saving:
		l.Ended = &taskstate.RunReport{
			Task: s.Task, State: s.State, Exit: s.Exit, Signal: s.Signal, Reason: s.Reason, Message: s.Message, At: s.At,
			Took: s.Took, Truncated: s.Truncated, Held: s.Held,
		}
	}
	return l
}

// ownFrame is one accepted set of assignments: it stays in the journal until its last task is
// acknowledged.
type ownFrame struct {
	record journal.Frame
	tasks  []*ownTask // until it is on disk
	jobs   []*ownJob
	left   int      // tasks not acknowledged
	done   []uint32 // positions acknowledged since the last transaction
	acks   []uint64 // keys of its done records
}

// ownJob is a job body and how many frames need it.
type ownJob struct {
	job     *taskstate.Job
	frames  int
	onDisk  bool
	renewed bool    // the one on disk has an older order
	staging staging // of its inputs
	message string  // how far they are, for people
}

// instant tasks promise and need nothing, so nothing can make them wait. Work that must not run
// twice takes its turn all the same: it is marked as begun only when it is.
func (j *ownJob) instant() bool {
	return j.job.Resources == (taskstate.Resources{}) && !j.job.Unreachable.Wait && !j.job.Prepares()
}

// size estimates the bytes of a body: what can be large in one.
func (j *ownJob) size() int {
	n := 256
	if s := j.job.Secrets; s != nil {
		n += len(s.Sealed)
	}
	if p := j.job.Run.Process; p != nil {
		n += len(p.Script)
		for _, a := range p.Command {
			n += len(a)
		}
		for k, v := range p.Env {
			n += len(k) + len(v)
		}
	}
	return n
}

// ownBatch is a batch that is not acknowledged.
type ownBatch struct {
	number   uint64
	tasks    []*ownTask
	sealed   *journal.SealedBatch // until it is on disk
	envelope []byte               // the signed bytes, the same for the topic and every session
}
