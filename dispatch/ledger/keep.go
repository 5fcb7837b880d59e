package ledger

import (
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// Pinned tells whether the job is kept because somebody said so.
func (j *JobRecord) Pinned() bool { return j.pinned }

// finishedJobs are the jobs that are over and those that were: it says which of them is to be
// forgotten. Only State calls it.
type finishedJobs struct {
	list      []*JobRecord // in the order they ended
	bytes     int          // what they weigh
	needed    needed
	forgotten []Forgotten // with the newest entry
	gone      goneJobs
}

// add takes a job that has ended.
func (f *finishedJobs) add(j *JobRecord) {
	f.needed.count(j.job, -1)
	f.list = append(f.list, j)
	f.bytes += j.weight
}

// reopen takes out a job that goes on.
func (f *finishedJobs) reopen(j *JobRecord) {
	f.list = slices.DeleteFunc(f.list, func(x *JobRecord) bool { return x == j })
	f.bytes -= j.weight
	if j.over { // a cancel that is taken back may not have ended it yet
		f.needed.count(j.job, 1)
	}
	j.over, j.ended, j.weight = false, 0, 0
}

// needed is how many jobs that are not over name a job whose files they take: it is kept as long as
// there are any, for nobody else has what it left.
type needed map[taskstate.JobID]int

func (m needed) count(job *taskstate.Job, by int) {
	for _, id := range job.Needs() {
		if m[id] += by; m[id] == 0 {
			delete(m, id)
		}
	}
}

// drop takes out a job that is to be forgotten now, and remembers that it was here; nil if none is.
func (f *finishedJobs) drop(settings Settings, stamp int64) *JobRecord {
	i, why := f.due(settings, stamp)
	if i < 0 {
		return nil
	}
	j := f.list[i]
	f.list = slices.Delete(f.list, i, i+1)
	f.bytes -= j.weight
	f.gone.add(j.job.ID, Gone{For: why, At: stamp})
	f.forgotten = append(f.forgotten, Forgotten{Job: j.job.ID, State: j.State()})
	return j
}

// due is the finished job that is to be forgotten now, and why; -1 if none is.
func (f *finishedJobs) due(settings Settings, stamp int64) (int, GoneFor) {
	if len(f.list) == 0 {
		return -1, 0
	}
	heavy := f.bytes > KeepBytes && len(f.list) > 1
	i := slices.IndexFunc(f.list, func(j *JobRecord) bool { return !j.pinned && f.needed[j.job.ID] == 0 })
	if i < 0 || heavy && i == len(f.list)-1 { // the newest one always stays
		if heavy {
			return slices.IndexFunc(f.list[:len(f.list)-1], func(j *JobRecord) bool { return f.needed[j.job.ID] == 0 }), GoneForSize
		}
		return -1, 0
	}
	keep, age := settings.Full(), stamp-f.list[i].ended
	many := len(f.list)-i > keep.KeepJobs && (settings.KeepJobs != 0 || age > KeepSure)
	switch {
	case age > keep.KeepFor:
		return i, GoneForAge
	case many:
		return i, GoneForCount
	case heavy:
		return i, GoneForSize
	}
	return -1, 0
}

// estimateBytes is about what a finished job occupies.
func (j *JobRecord) estimateBytes() int {
	const cellBytes, pastBytes, extrasBytes = 48, 64, 160
	w := 512 + j.slots.touched()*cellBytes + len(j.slots.extras)*extrasBytes + j.slots.saved.bytes() + j.job.Weight()
	if j.long != nil {
		for v, spec := range j.long.versions {
			if v != j.job.Version {
				w += spec.Weight()
			}
		}
	}
	for _, list := range j.past.former {
		w += pastBytes * (1 + len(list))
		for i := range list {
			if e := list[i].End; e != nil {
				w += pastBytes + len(e.Kind.Reason) + len(e.Kind.Message)
			}
		}
	}
	for _, f := range j.slots.kinds.list {
		w += 128 + len(f.Reason) + len(f.Message)
	}
	return w
}

// touched is how many cells exist, or would in a state that was restored: a job that has grown
// since makes them as they are needed.
func (t *slotTable) touched() int {
	n := 0
	for i := range t.chunks {
		if t.chunks[i].cells != nil {
			n += min(chunkSize, t.count-i*chunkSize)
		}
	}
	return n
}

// GoneFor is why a job that was over is not kept any more; 0 if that is not known.
type GoneFor uint8

// The reasons.
const (
	GoneForAge   GoneFor = iota + 1 // it ended too long ago
	GoneForCount                    // too many ended after it
	GoneForSize                     // all together took too much room
)

// Gone is why and when, by the ledger's clock, a job was forgotten.
type Gone struct {
	_   struct{} `cbor:",toarray"`
	For GoneFor
	At  int64
}

// goneJobs remembers the ids of forgotten jobs, the newest KeepGone of them.
type goneJobs struct {
	ids []taskstate.JobID
	why map[taskstate.JobID]Gone
}

func newGoneJobs() goneJobs { return goneJobs{why: map[taskstate.JobID]Gone{}} }

func (g *goneJobs) have(id taskstate.JobID) bool {
	_, have := g.why[id]
	return have
}

func (g *goneJobs) add(id taskstate.JobID, why Gone) {
	if len(g.ids) >= KeepGone {
		delete(g.why, g.ids[0])
		g.ids = g.ids[1:]
	}
	g.ids = append(g.ids, id)
	g.why[id] = why
}

// reasons are why the jobs in ids are gone.
func (g *goneJobs) reasons() []Gone {
	out := make([]Gone, len(g.ids))
	for i, id := range g.ids {
		out[i] = g.why[id]
	}
	return out
}

// Forgotten is a finished job that is not kept any more, and how it had ended.
type Forgotten struct {
	Job   taskstate.JobID
	State taskstate.State
}
