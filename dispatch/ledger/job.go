package ledger

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/coveyproject/covey/taskstate"
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
	st.Index, st.Saved = c.index, j.slots.savedOf(n, &c)
	r.Final = &st
	return r
}

// cutOff is the end of a slot that waited when it was retired, or its job cancelled.
func (j *JobRecord) cutOff(r SlotRecord) taskstate.Status {
	st := taskstate.Status{
		Task: taskstate.Task(j.job.ID, r.Slot, r.Attempt), State: taskstate.Shutdown, At: j.at,
		Exit: taskstate.NoExit, Reason: j.Why(), Message: j.reason,
	}
	if x := j.slots.extrasOf(r.Slot); x.Retired {
		st.At, st.Reason, st.Message = x.At, cmp.Or(x.Reason, taskstate.ReasonRetired), ""
	}
	return st
}

func (j *JobRecord) assigned(t taskstate.TaskID) (taskstate.PeerID, taskstate.Incarnation, uint64, taskstate.LedgerView) {
	if t.Slot < 1 || t.Slot > j.slots.count || t.Attempt < 1 {
		return "", "", 0, taskstate.Unknown
	}
	c := j.slots.get(t.Slot)
	waits := c.kind == kindUntouched || c.kind == kindPending
	cut := waits && (j.cancelled || j.slots.extrasOf(t.Slot).Retired)
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

// FirstAttempt is the number of the first attempt of each slot that has had none yet.
func (j *JobRecord) FirstAttempt() int { return int(max(j.slots.first, 1)) }

// outline describes the job without its versions, and of its slots only these.
func (j *JobRecord) outline(slots ...int) *Outline {
	o := &Outline{Job: j.job, Index: j.index, StartsFrom: j.StartsFrom(), First: j.FirstAttempt(), Blocked: len(j.blocked) > 0, Rollout: j.Rollout()}
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

// long is what a service or global job has beyond that.
type long struct {
	versions map[int]*taskstate.Job // the wanted one, those that slots are of, and previous
	previous int                    // version to roll back to, 0 = none
	rollout  RolloutRecord          // without Version and From
	pins     map[taskstate.PeerID]int
	revised  uint64 // index of the newest entry that changed the spec or the rollout
	moved    uint64 // index of the newest entry that added, renewed or retired slots
	before   uint64 // moved as it was before that entry: of use only while that is applied
	turned   int64  // when the newest order that a way back turned from was signed, Unix milliseconds; 0: none
}

// unknown tells whether something of what the slots are to be was decided that a proposer that had
// seen the ledger up to an index did not know. at is the index of the entry that asks.
func (l *long) unknown(seen, at uint64) bool {
	if l == nil || seen == 0 {
		return false
	}
	moved := l.moved
	if moved == at {
		moved = l.before
	}
	return max(l.revised, moved) > seen
}

// moves notes that an entry changed which slots there are, or which of them begin anew.
func (l *long) moves(index uint64) {
	if l != nil && l.moved != index {
		l.before, l.moved = l.moved, index
	}
}

// addExtras fills in what only few slots have.
func (j *JobRecord) addExtras(r *SlotRecord, c cell) {
	x := j.slots.extrasOf(r.Slot)
	r.Version, r.Retired, r.Pin = j.slots.version(x), x.Retired, x.Pin
	switch {
	case c.kind == kindOpen && x.Leaving:
		r.Leaving, r.Next = cmp.Or(x.Reason, taskstate.ReasonRetired), int(x.Next)
	case c.kind < kindOpen && !j.cancelled && !x.Retired:
		r.NotBefore = x.NotBefore
	}
}

// Why is the reason of a cancel as a word: taskstate.ReasonCancelled if somebody asked, otherwise
// what it was a consequence of. "" if the job is not cancelled.
func (j *JobRecord) Why() taskstate.Reason {
	if !j.cancelled {
		return taskstate.ReasonNone
	}
	if j.why == "" {
		return taskstate.ReasonCancelled
	}
	return j.why
}

// Rollout tells how far the tasks of a lasting job follow its version.
func (j *JobRecord) Rollout() RolloutRecord {
	if j.long == nil {
		return RolloutRecord{}
	}
	r := j.long.rollout
	r.Version, r.From = j.job.Version, j.long.previous
	return r
}

// LastRun is the moment, in milliseconds since 1970, that the newest run of a schedule was for; 0
// if there was none.
func (j *JobRecord) LastRun() int64 { return j.starts.Last }

// Skips lists the newest starts that a schedule skipped, oldest first, and tells how many there
// were at all. Read-only.
func (j *JobRecord) Skips() ([]Skipped, int) { return j.starts.Skips, j.starts.Skipped }

// StartsFrom is the moment, in milliseconds since 1970, up to which a schedule has nothing more to
// start: later ones are not decided yet.
func (j *JobRecord) StartsFrom() int64 { return max(j.starts.closed(), j.accepted) }

// Past lists what is remembered of the attempts that a slot has left behind, the oldest first.
func (j *JobRecord) Past(slot int) []PastAttempt {
	var out []PastAttempt
	for _, p := range j.past.former[uint32(slot)] {
		o := j.slots.owners.list[p.Owner]
		a := PastAttempt{
			Attempt: int(p.Attempt), Peer: o.Peer, Incarnation: o.Incarnation, Index: p.Index,
			AssignedAt: p.Assigned, GivenUpAt: p.GivenUp, Reason: p.Reason, Late: p.Late, Version: int(p.Version),
		}
		if e := p.End; e != nil {
			st := e.Kind.status(taskstate.Task(j.job.ID, slot, a.Attempt), e.Seq, e.At, e.Lasted)
			st.Index = p.Index
			a.End = &st
		}
		out = append(out, a)
	}
	return out
}

// PastSlots yields the slots of which Past remembers something, ascending.
func (j *JobRecord) PastSlots() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, n := range slices.Sorted(maps.Keys(j.past.former)) {
			if !yield(int(n)) {
				return
			}
		}
	}
}

// Contradictions lists the newest of the ends that came after another one had been decided for the
// same task, the oldest first.
func (j *JobRecord) Contradictions() []Conflict {
	var out []Conflict
	for _, c := range j.past.conflicted {
		out = append(out, Conflict{
			Slot: int(c.Slot), Attempt: int(c.Attempt), Peer: j.slots.owners.list[c.Owner].Peer, State: c.State, At: c.At,
		})
	}
	return out
}

// AcceptedBy tells who coordinated when the job was accepted, and in which epoch; "" for jobs from
// before this was kept.
func (j *JobRecord) AcceptedBy() (taskstate.PeerID, taskstate.Epoch) { return j.by, j.epoch }

// turn is what a job may know of the entry that is being applied, and where it notes what it did
// beyond what the command says.
type applying struct {
	index   uint64
	stamp   int64
	effects *effects
}

// effects is what a command did beyond what it says.
type effects struct {
	again    []Again
	released []taskstate.JobID
	cut      []taskstate.JobID
	along    []*Outline
}

func (f *effects) into(r *Result) {
	r.Again, r.Released, r.Cut, r.Along = f.again, f.released, f.cut, f.along
}

// waits notes that a slot waits, in one run with the slot before if that waits alike.
func (f *effects) waits(j *JobRecord, n, attempt int, x slotExtras) {
	a := Again{Job: j.job.ID, Slots: Slots{First: n, N: 1, Attempt: attempt}, Version: j.slots.version(x), NotBefore: x.NotBefore}
	if k := len(f.again) - 1; k >= 0 {
		l := &f.again[k]
		next := Again{Job: l.Job, Slots: Slots{First: l.Slots.First + l.Slots.N, N: 1, Attempt: l.Slots.Attempt}, Version: l.Version, NotBefore: l.NotBefore}
		if a == next {
			l.Slots.N++
			return
		}
	}
	f.again = append(f.again, a)
}
