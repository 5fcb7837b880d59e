package ledger

import (
	"maps"

	"covey/taskstate"
)

// Outline is what there is to know of a job to drive it, besides which of its slots wait and who has the others. It is immutable.
type Outline struct {
	Job        *taskstate.Job
	Index      uint64 // of acceptance
	StartsFrom int64  // see JobRecord.StartsFrom
	First      int    // see JobRecord.FirstAttempt
	Blocked    bool   // waits for other jobs

	// Of a lasting job; Slots are all there are, from slot 1.
	Versions map[int]*taskstate.Job
	Rollout  RolloutRecord
	Slots    []SlotRecord
}

// Outline describes the job as it is now.
func (j *JobRecord) Outline() *Outline {
	o := &Outline{Job: j.job, Index: j.index, StartsFrom: j.StartsFrom(), First: j.FirstAttempt(), Blocked: len(j.blocked) > 0}
	if j.long == nil {
		return o
	}
	o.Versions, o.Rollout = maps.Clone(j.long.versions), j.Rollout()
	o.Slots = make([]SlotRecord, 0, j.slots.count)
	for n := 1; n <= j.slots.count; n++ {
		o.Slots = append(o.Slots, j.Slot(n))
	}
	return o
}
