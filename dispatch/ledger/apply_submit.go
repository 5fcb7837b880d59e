package ledger

import (
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

func (b *jobTable) submit(c *Submit, w *Warrants) Result {
	job := &c.Job
	if old, ok := b.jobs[job.ID]; ok {
		if old.submittedAs(job) {
			return Result{Existed: true}
		}
		return Result{Existed: true, Refused: CodeConflict}
	}
	if b.finished.gone.have(job.ID) {
		return Result{Existed: true, Refused: CodeOver}
	}
	if !submittable(job) || c.First < 0 || c.First > maxFirst {
		return Result{Refused: CodeInvalid}
	}
	if code := w.ordered(job); code != CodeNone {
		return Result{Refused: code}
	}
	if r := b.wellPlaced(job); r.Refused != CodeNone {
		return r
	}
	if run := b.runBeside(job.Origin); run != nil {
		parent := b.jobs[job.Origin.Job]
		parent.starts.skip(Skipped{At: job.Origin.At, Run: run.job.ID, Stamp: b.head.stamp})
		return Result{Job: run.job.ID, Skipped: true}
	}
	kept := *job
	if kept.Type.Lasts() {
		kept.Version = 1
	}
	j := newJobRecord(&kept, b.head.index, b.head.stamp, &b.owners)
	if first := c.FirstAttempt(b.head.generation); first > 1 {
		j.slots.first = uint32(first)
	}
	j.by, j.epoch = b.head.coordinator, b.head.epoch
	if j.slots.count > 0 {
		j.slots.pending = runs{{First: 1, N: j.slots.count, Attempt: j.slots.attempt(cell{})}}
		j.slots.counts.Pending = j.slots.count
	}
	b.jobs[job.ID] = j
	b.order = append(b.order, j)
	b.finished.needed.count(j.job, 1)
	b.names.claim(j)
	if o := kept.Origin; o != nil {
		b.jobs[o.Job].starts.Last = o.At
	}
	b.follow(j)
	return Result{Now: j.outline()}
}

func submittable(job *taskstate.Job) bool {
	least, most := 1, MaxSlots
	switch {
	case job.Type == taskstate.ServiceJob:
		least = 0
	case job.Type == taskstate.GlobalJob:
		least, most = 0, 0
	}
	if job.Schedule != nil && (job.Type.Lasts() || job.Origin != nil) {
		return false
	}
	return job.ID != "" && job.Count >= least && job.Count <= most && (len(job.Each) == 0 || len(job.Each) == job.Count) && len(job.After) <= MaxAfter
}

// wellPlaced looks at a job among the others: its name, what it comes after, what started it.
func (b *jobTable) wellPlaced(job *taskstate.Job) Result {
	if old := b.names[job.Name]; old != nil && (job.Type.Lasts() || job.Schedule != nil) {
		return Result{Refused: CodeConflict, Job: old.job.ID}
	}
	for _, id := range job.After {
		if b.jobs[id] == nil {
			return Result{Refused: CodeUnknown, Missing: id}
		}
	}
	o := job.Origin
	if o == nil {
		return Result{}
	}
	switch parent := b.jobs[o.Job]; {
	case parent == nil:
		return Result{Refused: CodeUnknown, Missing: o.Job}
	case !parent.Scheduled():
		return Result{Refused: CodeInvalid}
	case parent.cancelled:
		return Result{Refused: CodeOver}
	case o.At <= parent.starts.closed(): // this run was, and is forgotten; or it was skipped; or it is of a spec that is not wanted any more
		return Result{Refused: CodeOver, Existed: true}
	}
	return Result{}
}

func newJobRecord(job *taskstate.Job, index uint64, stamp int64, o *owners) *JobRecord {
	j := &JobRecord{
		job: job, index: index, accepted: stamp,
		slots: slotTable{count: job.Count, owners: o, open: map[uint32]int{}, versioned: job.Type.Lasts(), saves: job.Saves() && !job.Type.Lasts()},
	}
	if job.Schedule != nil {
		j.slots.count = 0
	}
	if job.Type.Lasts() {
		j.long = &long{versions: map[int]*taskstate.Job{job.Version: job}, pins: map[taskstate.PeerID]int{}}
	}
	return j
}

// submittedAs tells whether this is what was submitted: encodings are deterministic.
func (j *JobRecord) submittedAs(job *taskstate.Job) bool {
	x := j.origin
	if x == nil {
		x = j.job.SubmissionDigest()
	}
	return slices.Equal(x, job.SubmissionDigest())
}

// Resubmitted reports whether a user said the same in this submission as in the one that the job
// came from, through whichever peer. Of secrets the names are compared: two peers never seal the
// same values to the same bytes.
func (j *JobRecord) Resubmitted(job *taskstate.Job) bool {
	old := j.job.Secrets
	if (old == nil) != (job.Secrets == nil) || old != nil && !slices.Equal(old.Names, job.Secrets.Names) {
		return false
	}
	again := job.SubmittedThrough(j.job.Submitter, old)
	return j.submittedAs(&again)
}

func (b *jobTable) cancel(c *Cancel) Result {
	j, ok := b.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.cancelled:
		return Result{Existed: true}
	case j.over:
		return Result{Refused: CodeOver}
	}
	b.stop(j, taskstate.ReasonNone, c.Reason)
	return Result{}
}

func (b *jobTable) skip(c *Skip) Result {
	j, ok := b.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case !j.Scheduled():
		return Result{Refused: CodeInvalid}
	case j.over || j.cancelled:
		return Result{Refused: CodeOver}
	case c.At <= j.starts.closed():
		return Result{Existed: true}
	}
	j.starts.skip(Skipped{At: c.At, Run: c.Run, Stamp: b.head.stamp})
	return Result{}
}

// runBeside is State.RunBeside.
func (b *jobTable) runBeside(o *taskstate.Origin) *JobRecord {
	if o == nil || b.jobs[o.Job].job.Schedule.Overlap == taskstate.AllowOverlap {
		return nil
	}
	for _, j := range slices.Backward(b.order) {
		if x := j.job.Origin; x != nil && x.Job == o.Job && !j.over {
			return j
		}
	}
	return nil
}

// FirstAttempt is the number of the first attempt of each slot of a job that is accepted in a
// generation: 1, unless it may have been accepted in a part of the ledger that was lost or set
// aside, and run.
func (c *Submit) FirstAttempt(generation uint64) int {
	if !c.Again || generation <= 1 {
		return max(1, c.First)
	}
	return max(int(generation-1)*attemptGap+1, c.First)
}

// AttemptBeyond is Submit.First for a job whose first attempts had this number where it was set
// aside.
func AttemptBeyond(first int) int { return (first-1)/attemptGap*attemptGap + attemptGap + 1 }
