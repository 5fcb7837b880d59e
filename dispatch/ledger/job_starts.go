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

// starts is what a schedule has started, and what not, also in a snapshot.
type starts struct {
	Since   int64     `cbor:"1,keyasint,omitempty"` // ledger stamp of the schedule's last change: nothing before is made up for
	Skipped int       `cbor:"2,keyasint,omitempty"` // how many starts were skipped
	Skips   []Skipped `cbor:"3,keyasint,omitempty"` // the newest of them, ascending; never changed in place
	Last    int64     `cbor:"4,keyasint,omitempty"` // moment of the newest run
}

// closed is the moment up to which nothing is decided any more: what the schedule was to do before
// it was changed, nobody wants now.
func (x *starts) closed() int64 { return max(x.Since, x.decided()) }

// decided is the newest moment that was decided about.
func (x *starts) decided() int64 {
	if n := len(x.Skips); n > 0 {
		return max(x.Last, x.Skips[n-1].At)
	}
	return x.Last
}

func (x *starts) skip(what Skipped) {
	x.Skips = append(slices.Clone(x.Skips[max(0, len(x.Skips)+1-KeepSkips):]), what)
	x.Skipped++
}

// valid tells whether what a snapshot says makes sense.
func (x *starts) valid() bool {
	for i := 1; i < len(x.Skips); i++ {
		if x.Skips[i].At <= x.Skips[i-1].At {
			return false
		}
	}
	return len(x.Skips) == min(x.Skipped, KeepSkips)
}
