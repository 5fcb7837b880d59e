// Package clock tells a coordinator the time: by this machine's clock, by the ledger's, and when to
// look again. It is pure: its owner moves it on.
package clock

import "time"

// Clock is the time of one core, from the moment it began.
type Clock struct {
	now, wake, started time.Time
	skew               int64 // the ledger's stamp, in milliseconds, when the core began: for all it knows so far
	index              uint64
}

// New begins at a moment, with the ledger as it was then.
func New(now time.Time, stamp int64, index uint64) *Clock {
	return &Clock{now: now, started: now, skew: stamp, index: index}
}

// Now is the time of the present step.
func (k *Clock) Now() time.Time { return k.now }

// Started is when the core began.
func (k *Clock) Started() time.Time { return k.started }

// Advance moves on to the time of the next step; it never goes back.
func (k *Clock) Advance(now time.Time) {
	if now.After(k.now) {
		k.now = now
	}
}

// WakeAt asks for a step no later than t.
func (k *Clock) WakeAt(t time.Time) {
	if k.wake.IsZero() || t.Before(k.wake) {
		k.wake = t
	}
}

// Wake is the earliest moment that was asked for; zero: there is none.
func (k *Clock) Wake() time.Time { return k.wake }

// Due tells whether that moment has come, and forgets it if so: what still waits asks again.
func (k *Clock) Due() bool {
	if k.wake.IsZero() || k.now.Before(k.wake) {
		return false
	}
	k.wake = time.Time{}
	return true
}

// Heard learns how far the ledger and its clock are. It rounds so that nothing comes a millisecond
// early.
func (k *Clock) Heard(index uint64, stamp int64) {
	passed := (k.now.Sub(k.started) + time.Millisecond - 1).Milliseconds()
	k.index, k.skew = index, max(k.skew, stamp-passed)
}

// Index is the index of the last entry heard of.
func (k *Clock) Index() uint64 { return k.index }

// Stamp is the present moment as the ledger tells it, in milliseconds: it never goes back, whatever
// the clock of a new coordinator says, and goes on as time passes.
func (k *Clock) Stamp() int64 { return k.skew + k.Elapsed(k.now) }

// When is a ledger stamp by this clock, to the millisecond after it.
func (k *Clock) When(stamp int64) time.Time { return k.After(stamp - k.skew) }

// Elapsed is a moment as a rollout is told it: milliseconds of the core's life, which no correction
// of a clock changes.
func (k *Clock) Elapsed(t time.Time) int64 { return t.Sub(k.started).Milliseconds() }

// After is the moment so many milliseconds of the core's life have passed.
func (k *Clock) After(ms int64) time.Time {
	return k.started.Add(time.Duration(ms) * time.Millisecond)
}
