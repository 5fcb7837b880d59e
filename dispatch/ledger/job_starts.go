package ledger

import (
	"slices"

	"covey/taskstate"
)

// KeepSkips is how many of the newest starts that a schedule skipped are remembered one by one.
const KeepSkips = 10

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

func (x *starts) skip(what Skipped) {
	x.skips = append(slices.Clone(x.skips[max(0, len(x.skips)+1-KeepSkips):]), what)
	x.skipped++
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

// startsSnapshot is starts in a snapshot, without last.
type startsSnapshot struct {
	Since   int64     `cbor:"1,keyasint,omitempty"`
	Skipped int       `cbor:"2,keyasint,omitempty"`
	Skips   []Skipped `cbor:"3,keyasint,omitempty"`
}
