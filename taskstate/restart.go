package taskstate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// How restarts are spaced out.
const (
	// QuickEnd is how soon after its start an attempt ends that doubles the delay of its slot.
	QuickEnd = 10 * time.Second
	// MaxBackoff caps the doubled delay; a longer Delay of the policy stays as it is.
	MaxBackoff = time.Minute
	// firstBackoff is what a delay of zero is after the second quick end in a row.
	firstBackoff = time.Second
	// DefaultRestartDelay is the delay of a service or global job that says nothing.
	DefaultRestartDelay = time.Second
	// MaxRestartAttempts caps Restart.Attempts, and with it what a slot has to remember.
	MaxRestartAttempts = 1000
)

// maxStamp bounds the times a decision is made with (the year 144,683), so that no sum overflows.
const maxStamp = 1 << 52

// DefaultRestart is the policy of a job of this type that says nothing: a batch slot ends with its
// attempt, the slots of the others are kept running.
func DefaultRestart(t JobType) *Restart {
	if !t.Lasts() {
		return nil
	}
	return &Restart{Condition: RestartAny, Delay: DefaultRestartDelay.Milliseconds()}
}

// History is what a slot has to remember between its attempts. The zero value is that of a new
// slot, and of one whose job got a new version. It is a plain value: it can be compared, copied and
// kept in a snapshot.
type History struct {
	Restarts int    `cbor:"1,keyasint,omitempty" json:"restarts,omitempty"` // granted so far
	Quick    int    `cbor:"2,keyasint,omitempty" json:"quick,omitempty"`    // attempts in a row that ended within QuickEnd of their start
	Recent   Stamps `cbor:"3,keyasint,omitempty" json:"recent,omitempty"`   // when the last restarts were granted: at most Attempts of a policy with a window
}

// RestartDecision is what a policy says about a slot whose attempt ended.
type RestartDecision struct {
	Again     bool    // the slot gets another attempt …
	NotBefore int64   // … which starts no earlier than this (milliseconds since 1970)
	Spent     bool    // it would have, but its attempts are used up
	History   History // to be remembered instead of the one that was given
}

// Next decides about a slot whose attempt ended as end after running for ran milliseconds (0 if it
// never started), at now (milliseconds since 1970; the ledger's stamp, so that every peer decides
// alike). A nil policy never restarts; neither does any after Shutdown, which somebody asked for,
// nor after what is no end. An orphan is taken for a failure only by a policy that restarts
// anything, because nobody saw whether it failed.
//
// The delay is the policy's; from the second quick end in a row on it doubles with each, up to
// MaxBackoff. Success counts too: a command that ends at once whenever it is started must not keep
// a cluster busy.
func (r *Restart) Next(h History, end State, ran, now int64) RestartDecision {
	if !r.after(end) {
		return RestartDecision{History: h}
	}
	now = min(max(now, 0), maxStamp)
	var recent []int64
	if r.Attempts > 0 && r.Window > 0 {
		recent = h.Recent.within(now, r.Window)
	}
	if r.spent(h, recent) {
		return RestartDecision{Spent: true, History: h}
	}
	if ran >= QuickEnd.Milliseconds() {
		h.Quick = 0
	}
	wait := r.delay(h.Quick)
	if ran < QuickEnd.Milliseconds() && h.Quick < math.MaxInt32 {
		h.Quick++
	}
	if h.Restarts < math.MaxInt32 {
		h.Restarts++
	}
	h.Recent = ""
	if r.Attempts > 0 && r.Window > 0 {
		h.Recent = stampsOf(append(recent, now))
	}
	return RestartDecision{Again: true, NotBefore: now + wait, History: h}
}

// after tells whether the policy answers this end with another attempt, attempts permitting.
func (r *Restart) after(end State) bool {
	switch {
	case r == nil:
		return false
	case r.Condition == RestartAny:
		return end == Complete || end == Failed || end == Rejected || end == Orphaned
	case r.Condition == RestartOnFailure:
		return end == Failed || end == Rejected
	}
	return false
}

func (r *Restart) spent(h History, recent []int64) bool {
	switch {
	case r.Attempts <= 0:
		return false
	case r.Window <= 0:
		return h.Restarts >= r.Attempts
	}
	return len(recent) >= min(r.Attempts, MaxRestartAttempts)
}

// delay is the wait after so many quick ends in a row, the one at hand not counted.
func (r *Restart) delay(quick int) int64 {
	base := min(max(r.Delay, 0), maxStamp)
	if quick == 0 {
		return base
	}
	wait := 2 * base
	if base == 0 {
		wait = firstBackoff.Milliseconds()
	}
	longest := max(base, MaxBackoff.Milliseconds())
	for range quick - 1 {
		if wait >= longest {
			break
		}
		wait *= 2
	}
	return min(wait, longest)
}

// Stamps are points in time, ascending, as one comparable text: the first in milliseconds since
// 1970, then the distance of each to the one before, all in base 36. "" is none.
type Stamps string

func stampsOf(at []int64) Stamps {
	var b strings.Builder
	last := int64(0)
	for i, t := range at {
		if i > 0 {
			b.WriteByte(',')
		}
		t = max(t, last)
		b.WriteString(strconv.FormatInt(t-last, 36))
		last = t
	}
	return Stamps(b.String())
}

// NoLater holds the stamps at a moment.
func (s Stamps) NoLater(to int64) Stamps {
	all, err := s.list()
	if err != nil {
		return s
	}
	for i := range all {
		all[i] = min(all[i], to)
	}
	return stampsOf(all)
}

// within gives the stamps less than window before now; those after now are among them, for a clock
// may have been set back. What cannot be read counts as none.
func (s Stamps) within(now, window int64) []int64 {
	all, err := s.list()
	if err != nil {
		return nil
	}
	for i, t := range all {
		if now-t < window {
			return all[i:]
		}
	}
	return nil
}

func (s Stamps) list() ([]int64, error) {
	if s == "" {
		return nil, nil
	}
	var out []int64
	last := int64(0)
	for part := range strings.SplitSeq(string(s), ",") {
		d, err := strconv.ParseInt(part, 36, 64)
		if err != nil || d < 0 || d > maxStamp-last || len(out) == MaxRestartAttempts {
			return nil, fmt.Errorf("%.20q are no stamps", string(s))
		}
		last += d
		out = append(out, last)
	}
	return out, nil
}

// Check tells what is wrong with a history from outside.
func (h History) Check() error {
	at, err := h.Recent.list()
	switch {
	case err != nil:
		return fmt.Errorf("history of a slot: %w", err)
	case stampsOf(at) != h.Recent:
		return fmt.Errorf("history of a slot: the stamps %.20q are not in canonical form", string(h.Recent))
	case h.Restarts < 0 || h.Restarts > math.MaxInt32 || h.Quick < 0 || h.Quick > math.MaxInt32:
		return fmt.Errorf("history of a slot: %d restarts, %d quick ends", h.Restarts, h.Quick)
	}
	return nil
}
