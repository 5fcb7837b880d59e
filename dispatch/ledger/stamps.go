package ledger

import "time"

// Stamps makes the stamps of one coordinator's entries: its clock, but never behind what the ledger
// has seen, and never slower than time passes from there. So what is decided to happen in a minute
// happens in a minute, although the coordinator before had a clock that was an hour ahead. It is
// not safe for concurrent use.
type Stamps struct {
	last int64
	at   time.Time
}

// NewStamps begins at the stamp of the newest decision (milliseconds since 1970).
func NewStamps(newest int64, now time.Time) Stamps { return Stamps{last: newest, at: now} }

// At is the stamp of what is decided now. Of two times the distance is what counts, by the
// monotonic clock if they have one.
func (s *Stamps) At(wall int64, now time.Time) int64 {
	if wall > s.last+now.Sub(s.at).Milliseconds() {
		s.last, s.at = wall, now
	}
	return s.last + now.Sub(s.at).Milliseconds()
}
