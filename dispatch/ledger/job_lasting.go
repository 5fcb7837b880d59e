package ledger

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"covey/taskstate"
)

// slotExtras is what only few slots have: those of lasting jobs, and those that leave, are retired
// or restart.
type slotExtras struct {
	version   uint32 // of the attempt it is in or waits for; 0 is the first one
	next      uint32 // leaving: version of the attempt that follows
	leaving   bool
	retired   bool
	reason    taskstate.Reason // why it leaves or is retired
	notBefore int64            // pending: does not start before this stamp
	at        int64            // retired while it waited: when
	pin       taskstate.PeerID
	history   taskstate.History // of its restarts, until it has ended for good
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
}

// unknown tells whether something of what the slots are to be was decided that whoever had seen the
// ledger up to an index did not know. at is the index of the entry that asks.
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

// RolloutRecord is how far the tasks of a lasting job follow its version.
type RolloutRecord struct {
	State   RolloutState `cbor:"1,keyasint,omitempty"`
	Message string       `cbor:"2,keyasint,omitempty"`
	Since   int64        `cbor:"3,keyasint,omitempty"` // ledger stamp of State
	Began   int64        `cbor:"4,keyasint,omitempty"` // ledger stamp at which Version began to be wanted
	Failed  int          `cbor:"5,keyasint,omitempty"` // on how many slots Version failed, as its update ended all the same
	Version int          `cbor:"-"`                    // the version that is wanted: Job().Version
	From    int          `cbor:"-"`                    // the version before, to which a rollback goes; 0 = none
}

// Lasts tells whether the job goes on until somebody ends it.
func (j *JobRecord) Lasts() bool { return j.long != nil }

// Slots is how many slots there are: they are 1 … Slots. Batch jobs have Count; lasting ones more,
// or fewer, for a while; those that only start others have none.
func (j *JobRecord) Slots() int { return j.slots.count }

// JobOf is the spec of a version of a lasting job: the one that is wanted, those that slots are of,
// and the one before. 0 is the one that is wanted, and the only one of other jobs. Nil if it is not
// kept.
func (j *JobRecord) JobOf(version int) *taskstate.Job {
	if version == 0 || version == j.job.Version {
		return j.job
	}
	if j.long == nil {
		return nil
	}
	return j.long.versions[version]
}

// Versions lists the versions that JobOf knows, ascending; none for jobs without versions.
func (j *JobRecord) Versions() []int {
	if j.long == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(j.long.versions))
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

// Blocked lists the jobs this one waits for: none of its slots is given out before they are
// complete.
func (j *JobRecord) Blocked() []taskstate.JobID { return slices.Clone(j.blocked) }

// Scheduled tells whether the job only starts others like it.
func (j *JobRecord) Scheduled() bool { return j.job.Schedule != nil }

// Pin is the only peer a slot may go to; "" = any.
func (j *JobRecord) Pin(slot int) taskstate.PeerID { return j.slots.extrasOf(slot).pin }

// Waiting yields what nobody has, as PendingSlots does, in runs that are of one version and start
// at the same time.
func (j *JobRecord) Waiting() iter.Seq[Again] {
	return func(yield func(Again) bool) {
		special := slices.Sorted(maps.Keys(j.slots.extras))
		for _, run := range j.slots.pending {
			i, _ := slices.BinarySearch(special, uint32(run.First))
			for first := run.First; first < run.First+run.N; {
				x, n := j.slots.extrasOf(first), 1
				if j.slots.extras[uint32(first)] == nil { // up to the next slot that has something
					n = run.First + run.N - first
					if i < len(special) {
						n = min(n, int(special[i])-first)
					}
				} else {
					i++
				}
				slots := Slots{First: first, N: n, Attempt: run.Attempt}
				if !yield(Again{Job: j.job.ID, Slots: slots, Version: j.slots.version(x), NotBefore: x.notBefore}) {
					return
				}
				first += n
			}
		}
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

// addExtras fills in what only few slots have.
func (j *JobRecord) addExtras(r *SlotRecord, c cell) {
	x := j.slots.extrasOf(r.Slot)
	r.Version, r.Retired, r.Pin = j.slots.version(x), x.retired, x.pin
	switch {
	case c.kind == kindOpen && x.leaving:
		r.Leaving, r.Next = cmp.Or(x.reason, taskstate.ReasonRetired), int(x.next)
	case c.kind < kindOpen && !j.cancelled && !x.retired:
		r.NotBefore = x.notBefore
	}
}

// State is the state of the job as a whole: Pending while nothing of it runs or ran, and while it
// is blocked or only starts others; Running; and at its end Complete (every slot that was wanted),
// Shutdown (it was cancelled and that cut something off) or Failed. A lasting job is Running until
// its end.
func (j *JobRecord) State() taskstate.State {
	c := j.slots.counts
	wanted := j.slots.count - c.Retired
	switch {
	case !j.over && (len(j.blocked) > 0 || j.Scheduled()):
		return taskstate.Pending
	case !j.over && j.Lasts():
		return taskstate.Running
	case !j.over && c.Pending == j.slots.count:
		return taskstate.Pending
	case !j.over:
		return taskstate.Running
	case j.why == taskstate.ReasonMaxFails:
		return taskstate.Failed
	case j.cancelled && (j.Lasts() || j.Scheduled()):
		return taskstate.Shutdown
	case c.Complete == wanted && wanted > 0:
		return taskstate.Complete
	case wanted == 0, c.Shutdown > 0 && (j.cancelled || c.Failed+c.Rejected+c.Orphaned == 0):
		return taskstate.Shutdown
	}
	return taskstate.Failed
}
