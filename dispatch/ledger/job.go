package ledger

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"covey/taskstate"
)

// JobRecord is a job and what was decided about it. Read it only inside Replica.Read; Job's result
// is immutable and may be kept.
type JobRecord struct {
	job      *taskstate.Job
	index    uint64
	accepted int64
	by       taskstate.PeerID // who coordinated then
	epoch    taskstate.Epoch

	cancelled bool
	reason    string
	at        int64 // stamp of the cancel

	pinned bool
	over   bool
	ended  int64
	weight int // bytes it is taken to weigh, once over

	slots slotTable
	past  pastAttempts

	why      taskstate.Reason  // of the cancel; "" is taskstate.ReasonCancelled
	blocked  []taskstate.JobID // jobs that have to be complete first, and are not
	origin   []byte            // digest of what was submitted, once that was updated
	starts   starts            // of a schedule
	forgiven int               // failed slots that do not count for MaxFails: somebody asked for others to be tried again
	long     *long             // of a service or global job
}

// Counts says how many slots of a job are where. They add up to the job's Slots.
type Counts struct {
	Pending  int // nobody has it
	Open     int // assigned, no end decided
	Complete int
	Failed   int
	Rejected int
	Shutdown int
	Orphaned int
	Retired  int // not wanted any more, and not open; however they ended
}

// SlotRecord is one slot: its newest attempt. Peer, Incarnation, Index and AssignedAt belong to
// that attempt and are zero while it is pending.
type SlotRecord struct {
	Slot        int
	Attempt     int
	Open        bool // assigned, not settled
	Peer        taskstate.PeerID
	Incarnation taskstate.Incarnation
	Index       uint64            // ledger index of the assignment
	AssignedAt  int64             // ledger stamp of the assignment
	Final       *taskstate.Status // its end, once decided

	Version   int              // of the job that the attempt is of; 0 for jobs without versions
	Leaving   taskstate.Reason // open, and its worker is to stop it: why; "" = it is not
	Next      int              // leaving: version of the attempt that follows
	Retired   bool             // not wanted any more; while open: leaving for good
	NotBefore int64            // pending: ledger stamp before which it does not start; 0 = at once
	Pin       taskstate.PeerID // the only peer it may go to; "" = any
}

// Pending tells whether the slot waits for somebody to be given it.
func (r SlotRecord) Pending() bool { return !r.Open && r.Final == nil }

// Job is what was submitted, in a lasting job the spec that is wanted now. What it points to never
// changes.
func (j *JobRecord) Job() *taskstate.Job { return j.job }

// Index is the ledger index at which the job was accepted: the order of jobs.
func (j *JobRecord) Index() uint64 { return j.index }

// Accepted is the ledger stamp of acceptance.
func (j *JobRecord) Accepted() int64 { return j.accepted }

// Cancelled tells whether, when and why the job was cancelled.
func (j *JobRecord) Cancelled() (reason string, at int64, ok bool) {
	return j.reason, j.at, j.cancelled
}

// Ended tells whether the job is over – every slot has its end, and nothing will give one another
// attempt but a Renew – and the ledger stamp at which that came.
func (j *JobRecord) Ended() (at int64, ok bool) { return j.ended, j.over }

// Counts says how many slots are where.
func (j *JobRecord) Counts() Counts { return j.slots.counts }

// Truncated tells whether not all output of a slot's end was kept, because of the cap. It is
// certain once the job is over.
func (j *JobRecord) Truncated() bool {
	return slices.ContainsFunc(j.slots.kinds.list, func(f endKind) bool { return f.Truncated })
}

// Slot describes slot n, from 1; the zero record if there is no such slot.
func (j *JobRecord) Slot(n int) SlotRecord {
	if n < 1 || n > j.slots.count {
		return SlotRecord{}
	}
	return j.record(n, j.slots.get(n))
}

// PendingSlots yields what nobody has, in runs of one attempt, ascending. A slot that was never
// assigned costs nothing.
func (j *JobRecord) PendingSlots() iter.Seq[Slots] { return slices.Values(j.slots.pending) }

// OpenSlots yields the slots that are assigned and not settled, ascending.
func (j *JobRecord) OpenSlots() iter.Seq[SlotRecord] {
	return func(yield func(SlotRecord) bool) {
		if j.slots.counts.Open == 0 {
			return
		}
		for n, c := range j.slots.opened() {
			if !yield(j.record(n, *c)) {
				return
			}
		}
	}
}

func (j *JobRecord) record(n int, c cell) SlotRecord {
	r := SlotRecord{Slot: n, Attempt: j.slots.attempt(c)}
	j.addExtras(&r, c)
	if c.kind == kindUntouched || c.kind == kindPending {
		if r.Retired || j.cancelled {
			st := j.cutOff(r)
			r.Final = &st
		}
		return r
	}
	r.Index, r.AssignedAt = c.index, c.assigned
	r.Peer, r.Incarnation = j.slots.owners.list[c.owner].Peer, j.slots.owners.list[c.owner].Incarnation
	if c.kind == kindOpen {
		r.Open = true
		return r
	}
	st := j.slots.kinds.list[c.kind-kindFirst].status(taskstate.Task(j.job.ID, n, int(c.attempt)), c.seq, c.end, c.lasted)
	st.Index = c.index
	r.Final = &st
	return r
}

// cutOff is the end of a slot that waited when it was retired, or its job cancelled.
func (j *JobRecord) cutOff(r SlotRecord) taskstate.Status {
	st := taskstate.Status{
		Task: taskstate.Task(j.job.ID, r.Slot, r.Attempt), State: taskstate.Shutdown, At: j.at,
		Exit: taskstate.NoExit, Reason: j.Why(), Message: j.reason,
	}
	if x := j.slots.extrasOf(r.Slot); x.retired {
		st.At, st.Reason, st.Message = x.at, cmp.Or(x.reason, taskstate.ReasonRetired), ""
	}
	return st
}

func (j *JobRecord) assigned(t taskstate.TaskID) (taskstate.PeerID, taskstate.Incarnation, uint64, taskstate.Standing) {
	if t.Slot < 1 || t.Slot > j.slots.count || t.Attempt < 1 {
		return "", "", 0, taskstate.Unknown
	}
	c := j.slots.get(t.Slot)
	waits := c.kind == kindUntouched || c.kind == kindPending
	cut := waits && (j.cancelled || j.slots.extrasOf(t.Slot).retired)
	switch now := j.slots.attempt(c); {
	case t.Attempt < now:
		return "", "", 0, taskstate.Retired
	case cut && t.Attempt == now, t.Attempt > now && j.past.left(t):
		return "", "", 0, taskstate.Retired
	case waits || t.Attempt > now:
		return "", "", 0, taskstate.Unknown
	}
	o, st := j.slots.owners.list[c.owner], taskstate.Known
	if c.kind != kindOpen {
		st = taskstate.Retired
	}
	return o.Peer, o.Incarnation, c.index, st
}

// Outline is what there is to know of a job to drive it, besides which of its slots wait and who
// has the others. It is immutable.
type Outline struct {
	Job        *taskstate.Job
	Index      uint64 // of acceptance
	StartsFrom int64  // see JobRecord.StartsFrom
	First      int    // number of the first attempt of a slot that has had none: 1 unless the ledger was recovered
	Blocked    bool   // waits for other jobs

	// Of a lasting job; Slots are all there are, from slot 1.
	Versions map[int]*taskstate.Job
	Rollout  RolloutRecord
	Slots    []SlotRecord

	// Only in a Result: versions that want the same as Job. Their slots count as of its version.
	Same []int `cbor:"-"`
}

// outline describes the job without its versions, and of its slots only these.
func (j *JobRecord) outline(slots ...int) *Outline {
	o := &Outline{Job: j.job, Index: j.index, StartsFrom: j.StartsFrom(), First: int(max(j.slots.first, 1)), Blocked: len(j.blocked) > 0, Rollout: j.Rollout()}
	for _, n := range slots {
		o.Slots = append(o.Slots, j.Slot(n))
	}
	return o
}

// Outline describes the job as it is now.
func (j *JobRecord) Outline() *Outline {
	o := j.outline()
	if j.long == nil {
		return o
	}
	o.Versions = maps.Clone(j.long.versions)
	o.Slots = make([]SlotRecord, 0, j.slots.count)
	for n := 1; n <= j.slots.count; n++ {
		o.Slots = append(o.Slots, j.Slot(n))
	}
	return o
}
