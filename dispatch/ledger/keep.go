package ledger

import (
	"slices"

	"covey/taskstate"
)

// Limits of what a State keeps. They are constants because every replica must forget the same
// things at the same entry.
const (
	KeepFinished = 1000                    // finished jobs, by count, of those that ended more than KeepSure ago, or of all if Set says so
	KeepSure     = 7 * 24 * 60 * 60 * 1000 // nothing that ended so lately goes by a count that nobody has set: milliseconds of ledger stamps
	KeepFor      = 7 * 24 * 60 * 60 * 1000 // finished jobs, by age in milliseconds of ledger stamps, unless Set says otherwise
	KeepBytes    = 32 << 20                // what finished jobs may weigh together; the newest one always stays
	KeepGone     = 10_000                  // ids of forgotten jobs, so that a late repetition of Submit does not run them again
	KeepInvites  = 1000                    // invites; of those that admit nobody any more the oldest go first
	MaxPins      = 100                     // jobs that are kept because somebody said so
	MaxAfter     = 100                     // jobs that one waits for
	MaxLabels    = 100                     // labels that people give or take from one peer
	MaxSlots     = 1 << 20                 // slots of one job; as many elements as a decoded list may have
)

// Pin has a job kept when it is over, whatever its age and however many there are, or, with Not,
// ends that. With MaxPins of them another one is refused with CodeInvalid.
type Pin struct {
	Job taskstate.JobID `cbor:"1,keyasint"`
	Not bool            `cbor:"2,keyasint,omitempty"`
}

func (s *State) pin(c *Pin) Result {
	j, ok := s.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.pinned == !c.Not:
		return Result{Existed: true}
	case !c.Not && s.pins() >= MaxPins:
		return Result{Refused: CodeInvalid}
	}
	j.pinned = !c.Not
	return Result{}
}

func (s *State) pins() (n int) {
	for _, j := range s.order {
		if j.pinned {
			n++
		}
	}
	return n
}

// Pinned tells whether the job is kept because somebody said so.
func (j *JobRecord) Pinned() bool { return j.pinned }

// forget drops the finished jobs that are too many, too old or too heavy, the ones that ended first
// first. Those that are pinned go last, and only because all together are too heavy.
func (s *State) forget() {
	for {
		i, why := s.due()
		if i < 0 {
			return
		}
		j := s.finished[i]
		s.finished = slices.Delete(s.finished, i, i+1)
		s.kept -= j.weight
		s.drop(j, why)
	}
}

// due is the finished job that is to be forgotten now, and why; -1 if none is.
func (s *State) due() (int, GoneFor) {
	if len(s.finished) == 0 {
		return -1, 0
	}
	heavy := s.kept > KeepBytes && len(s.finished) > 1
	i := slices.IndexFunc(s.finished, func(j *JobRecord) bool { return !j.pinned })
	if i < 0 || heavy && i == len(s.finished)-1 { // the newest one always stays
		if heavy {
			return 0, GoneForSize
		}
		return -1, 0
	}
	keep, age := s.settings.Full(), s.stamp-s.finished[i].ended
	many := len(s.finished)-i > keep.KeepJobs && (s.settings.KeepJobs != 0 || age > KeepSure)
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

func (s *State) drop(j *JobRecord, why GoneFor) {
	delete(s.jobs, j.job.ID)
	for i, x := range s.order {
		if x == j {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	s.gone.add(j.job.ID, Gone{For: why, At: s.stamp})
	s.forgotten = append(s.forgotten, Forgotten{Job: j.job.ID, State: j.State()})
}

// estimateBytes is about what a finished job occupies.
func (j *JobRecord) estimateBytes() int {
	const cellBytes, pastBytes, sideBytes = 48, 64, 160
	w := 512 + j.slots.touched()*cellBytes + len(j.extras)*sideBytes + specBytes(j.job)
	if j.long != nil {
		for v, spec := range j.long.versions {
			if v != j.job.Version {
				w += specBytes(spec)
			}
		}
	}
	for _, list := range j.former {
		w += pastBytes * (1 + len(list))
		for i := range list {
			if e := list[i].end; e != nil {
				w += pastBytes + len(e.Reason) + len(e.Message)
			}
		}
	}
	for _, f := range j.kinds.list {
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

// specBytes estimates what a spec occupies.
func specBytes(job *taskstate.Job) (w int) {
	const stringBytes = 16
	for _, x := range job.Each {
		w += stringBytes + len(x)
	}
	for _, a := range job.Matrix {
		w += 3*stringBytes + len(a.Name)
		for _, x := range a.Values {
			w += stringBytes + len(x)
		}
	}
	for _, x := range job.Constraints {
		w += stringBytes + len(x)
	}
	if p := job.Run.Process; p != nil {
		w += len(p.Script)
		for _, x := range p.Command {
			w += stringBytes + len(x)
		}
		for k, v := range p.Env {
			w += 2*stringBytes + len(k) + len(v)
		}
	}
	return w
}
