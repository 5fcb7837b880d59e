package ledger

import (
	"context"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// Ledger is what the coordinator's loop and the node need of a ledger. quorum.Node implements it.
type Ledger interface {
	// Propose decides commands together, in order, and returns once they are applied in the own
	// replica: one result per command, and the index of the entry. Concurrent calls may share an
	// entry. It fails with ErrNotCoordinator when this peer does not lead, and with the context's
	// error when that ends first; then the commands may still be decided later.
	Propose(ctx context.Context, commands []Command) (index uint64, results []Result, err error)
	// Replica is this peer's own copy of what was decided.
	Replica() *Replica
	// Coordinator is who coordinates as far as this peer knows: certain when it is this peer
	// itself, a hint otherwise.
	Coordinator() (peer taskstate.PeerID, epoch taskstate.Epoch, ok bool)
}

// ErrNotCoordinator says that this peer cannot decide. Hint is whom to ask instead, "" if that is
// not known.
type ErrNotCoordinator struct {
	Hint taskstate.PeerID
}

// Error names the hint.
func (e ErrNotCoordinator) Error() string {
	if e.Hint == "" {
		return "this peer does not coordinate, and knows no coordinator; ask again in a second"
	}
	return "this peer does not coordinate; ask " + e.Hint
}

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

// Time is the ledger's time at now: that of the newest stamp, and what has passed since.
func (s *Stamps) Time(now time.Time) int64 { return s.last + now.Sub(s.at).Milliseconds() }

// At is the stamp of what is decided now. Of two times the distance is what counts, by the
// monotonic clock if they have one.
func (s *Stamps) At(wall int64, now time.Time) int64 {
	if wall > s.Time(now) {
		s.last, s.at = wall, now
	}
	return s.Time(now)
}
