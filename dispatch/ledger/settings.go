package ledger

import (
	"errors"
	"fmt"
	"time"
)

// Settings hold for the whole cluster. Zero is the default.
type Settings struct {
	Beat  int64 `cbor:"1,keyasint,omitempty"` // milliseconds between two signs of life of a worker: 1 s
	Grace int64 `cbor:"2,keyasint,omitempty"` // milliseconds without one until its session is over: 3 beats

	KeepJobs int   `cbor:"3,keyasint,omitempty"` // jobs that are over and remembered, at most: KeepFinished
	KeepFor  int64 `cbor:"4,keyasint,omitempty"` // milliseconds for which they are: KeepFor

	// RequireOrders refuses jobs that nobody signed: On in clusters founded since there are orders.
	RequireOrders Switch `cbor:"5,keyasint,omitempty"`
}

// Switch is a setting that is on or off; "" is as it was, or off.
type Switch string

// What a Switch can say.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// Bounds and defaults of Settings, in milliseconds.
const (
	DefaultBeat = 1000
	MinBeat     = 100
	MaxBeat     = 60_000
	MaxGrace    = 600_000
	GraceBeats  = 3 // grace, in beats, where nobody said otherwise
	LeastBeats  = 2 // that fit into a grace

	MostKept     = 100_000               // jobs that are over and remembered
	MostKeptFor  = 10 * 365 * 24 * hours // and for how long
	LeastKeptFor = 1000

	hours = 60 * 60 * 1000
)

// With is what the settings are after c.
func (s Settings) With(c Set) Settings {
	if c.Beat != 0 {
		s.Beat = c.Beat
	}
	if c.Grace != 0 {
		s.Grace = c.Grace
	}
	if c.KeepJobs != 0 {
		s.KeepJobs = c.KeepJobs
	}
	if c.KeepFor != 0 {
		s.KeepFor = c.KeepFor
	}
	if c.RequireOrders != "" {
		s.RequireOrders = c.RequireOrders
	}
	return s
}

// Full is the settings with the defaults filled in.
func (s Settings) Full() Settings {
	if s.Beat == 0 {
		s.Beat = DefaultBeat
	}
	if s.Grace == 0 {
		s.Grace = GraceBeats * s.Beat
	}
	if s.KeepJobs == 0 {
		s.KeepJobs = KeepFinished
	}
	if s.KeepFor == 0 {
		s.KeepFor = KeepFor
	}
	if s.RequireOrders == "" {
		s.RequireOrders = Off
	}
	return s
}

// Check tells why the settings would not do.
func (s Settings) Check() error {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	full := s.Full()
	switch {
	case full.RequireOrders != On && full.RequireOrders != Off:
		return errors.New("orders are required or not: on or off")
	case s.Beat < 0 || s.Grace < 0:
		return errors.New("beat and grace are above 0")
	case s.KeepJobs < 0 || s.KeepJobs > MostKept:
		return fmt.Errorf("finished jobs are kept from 1 to %d, not %d", MostKept, s.KeepJobs)
	case full.KeepFor < LeastKeptFor || full.KeepFor > MostKeptFor:
		return fmt.Errorf("finished jobs are kept for 1s to ten years, not %s", ms(full.KeepFor))
	case full.Beat < MinBeat || full.Beat > MaxBeat:
		return fmt.Errorf("a beat is %s to %s, not %s", ms(MinBeat), ms(MaxBeat), ms(full.Beat))
	case full.Grace > MaxGrace:
		return fmt.Errorf("a grace is at most %s, not %s", ms(MaxGrace), ms(full.Grace))
	case full.Grace < LeastBeats*full.Beat:
		return fmt.Errorf("a grace is at least %d beats: %s with a beat of %s, not %s", LeastBeats, ms(LeastBeats*full.Beat), ms(full.Beat), ms(full.Grace))
	}
	return nil
}

func (s *Settings) set(c *Set) Result {
	next := s.With(*c)
	switch {
	case *c == (Set{}) || next.Check() != nil:
		return Result{Refused: CodeInvalid}
	case next == *s:
		return Result{Existed: true}
	}
	*s = next
	return Result{}
}

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
