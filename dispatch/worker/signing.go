package worker

import "time"

// signGrace is how long a worker that comes back with a past waits for a coordinator to tell it
// whether that is all of its past, before it signs anything in its name. Without a coordinator
// others learn after that how its tasks are.
const signGrace = 5 * time.Second

// hearGrace is how long it waits beside a coordinator that has heard less of it than one did
// before, because it has just started, too: others may know more, and level their batches with this
// peer's when they meet it.
const hearGrace = time.Second

// signing owns the answer to when batches may be numbered: not before it is known which numbers
// were used. Only the core calls it.
type signing struct {
	born    time.Time
	known   bool      // a coordinator has named what is known of this incarnation, and it is not more than the journal has
	vouched time.Time // until then batches are not numbered: see hearGrace
	mute    bool      // nothing is signed, see Loop.Mute
}

// welcomed hears of the highest batch a coordinator knows, which is not above the last one.
func (s *signing) welcomed(highest, acked uint64, now time.Time) {
	if !s.known && highest < acked {
		s.vouched = now.Add(hearGrace)
	}
	s.known = true
}

// may tells whether batches may be numbered after the last one. If not yet, it says when.
func (s *signing) may(now time.Time, last uint64, stopping bool) (at time.Time, ok bool) {
	if s.mute {
		return at, false
	}
	begin, due := time.Time{}, s.born.Add(signGrace)
	if s.known {
		begin, due = s.vouched.Add(-hearGrace), s.vouched // a clock that was set back since does not make it wait anew
	}
	return due, stopping || last == 0 || now.Before(begin) || !now.Before(due)
}
