package ledger

import (
	"slices"

	"covey/taskstate"
)

// KeepSkips is how many of the newest starts that a schedule skipped are remembered one by one.
const KeepSkips = 10

// Skip records that a schedule did not start a run, because the one before still went on. Whoever
// coordinates next does not make up for it. A moment that was decided before, or that comes before
// the schedule's last change, is Existed.
type Skip struct {
	Job taskstate.JobID `cbor:"1,keyasint"` // the schedule
	At  int64           `cbor:"2,keyasint"` // the moment the run would have been for, in milliseconds since 1970
	Run taskstate.JobID `cbor:"3,keyasint"` // the run that went on
}

// Skipped is a start that a schedule skipped.
type Skipped struct {
	At    int64           `cbor:"1,keyasint"` // the moment it would have been for, in milliseconds since 1970
	Run   taskstate.JobID `cbor:"2,keyasint"` // the run that went on
	Stamp int64           `cbor:"3,keyasint"` // ledger stamp of the decision
}

// starts is what a schedule has started, and what not.
type starts struct {
	last    int64     // moment of the newest run
	since   int64     // ledger stamp of the schedule's last change: nothing before is made up for
	skipped int       // how many starts were skipped
	skips   []Skipped // the newest of them, ascending; never changed in place
}

// LastRun is the moment, in milliseconds since 1970, that the newest run of a schedule was for; 0
// if there was none.
func (j *JobRecord) LastRun() int64 { return j.starts.last }

// Skips lists the newest starts that a schedule skipped, oldest first, and tells how many there
// were at all. Read-only.
func (j *JobRecord) Skips() ([]Skipped, int) { return j.starts.skips, j.starts.skipped }

// StartsFrom is the moment, in milliseconds since 1970, up to which a schedule has nothing more to
// start: later ones are not decided yet.
func (j *JobRecord) StartsFrom() int64 { return max(j.starts.closed(), j.accepted) }

// closed is the moment up to which nothing is decided any more: what the schedule was to do before
// it was changed, nobody wants now.
func (x *starts) closed() int64 { return max(x.since, x.decided()) }

// decided is the newest moment that was decided about.
func (x *starts) decided() int64 {
	if n := len(x.skips); n > 0 {
		return max(x.last, x.skips[n-1].At)
	}
	return x.last
}

func (s *State) skip(c *Skip) Result {
	j, ok := s.jobs[c.Job]
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
	j.starts.skip(Skipped{At: c.At, Run: c.Run, Stamp: s.stamp})
	return Result{}
}

func (x *starts) skip(what Skipped) {
	x.skips = append(slices.Clone(x.skips[max(0, len(x.skips)+1-KeepSkips):]), what)
	x.skipped++
}

// RunBeside is the newest run that goes on beside one that a schedule is to start, if it allows
// none; the schedule is known. The coordinator looks before it decides, but somebody may have had
// an older one tried again, or started one, since: Submit looks again.
func (s *State) RunBeside(o *taskstate.Origin) *JobRecord {
	if o == nil || s.jobs[o.Job].job.Schedule.Overlap == taskstate.AllowOverlap {
		return nil
	}
	for _, j := range slices.Backward(s.order) {
		if x := j.job.Origin; x != nil && x.Job == o.Job && !j.over {
			return j
		}
	}
	return nil
}

// startsSnapshot is starts in a snapshot, without last.
type startsSnapshot struct {
	Since   int64     `cbor:"1,keyasint,omitempty"`
	Skipped int       `cbor:"2,keyasint,omitempty"`
	Skips   []Skipped `cbor:"3,keyasint,omitempty"`
}

func (x *starts) pack() *startsSnapshot {
	if x.since == 0 && x.skipped == 0 {
		return nil
	}
	return &startsSnapshot{Since: x.since, Skipped: x.skipped, Skips: x.skips}
}

// unpack tells whether a snapshot makes sense.
func (x *starts) unpack(last int64, in *startsSnapshot) bool {
	if x.last = last; in == nil {
		return true
	}
	x.since, x.skipped, x.skips = in.Since, in.Skipped, in.Skips
	for i := 1; i < len(x.skips); i++ {
		if x.skips[i].At <= x.skips[i-1].At {
			return false
		}
	}
	return len(x.skips) == min(x.skipped, KeepSkips)
}
