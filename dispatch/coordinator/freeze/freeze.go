// Package freeze says when tasks of vanished peers are not to be replaced: when so many vanish at
// once that it is more likely that this coordinator is the isolated one, while they come back, and
// when too many were replaced just now. It is pure: its owner tells it who is gone.
package freeze

import (
	"fmt"
	"slices"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// When so many of the other peers vanish so quickly, it is more likely that this coordinator is the
// isolated one: nothing is replaced until enough of them are back, or a person says that they are
// really gone.
const (
	within = time.Minute
	least  = 3
)

// Settle is how long replacement waits for the others after each return from a freeze: so long it
// takes until everybody knows everybody again.
const Settle = 5 * time.Second

// State says why nothing is replaced; the zero value means that replacement goes its way.
type State struct {
	Gone []taskstate.PeerID // vanished together and not back, by id
	Of   int                // so many other peers were there before
}

// Active tells whether replacement is frozen.
func (f State) Active() bool { return len(f.Gone) > 0 }

// String says it to a person; "" if it is not.
func (f State) String() string {
	if !f.Active() {
		return ""
	}
	return fmt.Sprintf("%d of %d other peers vanished within %s", len(f.Gone), f.Of, within)
}

// Loss is a peer that vanished.
type Vanished struct {
	Peer  taskstate.PeerID
	Since time.Time
}

// Of looks for a minute in which at least three peers vanished that are not back, and more than
// half of those that were there when it began. others counts all other peers, vanished or not. Of
// several such minutes the one with the most counts. It depends on who is gone now and since when,
// and on nothing before: a coordinator elected meanwhile comes to the same.
func Of(lost []Vanished, others int) (f State) {
	slices.SortFunc(lost, func(a, b Vanished) int { return a.Since.Compare(b.Since) })
	end := 0
	for i := range lost {
		for end < len(lost) && lost[end].Since.Sub(lost[i].Since) <= within {
			end++
		}
		gone, of := end-i, others-i
		if gone < least || 2*gone <= of || gone <= len(f.Gone) {
			continue
		}
		f = State{Of: of}
		for _, l := range lost[i:end] {
			f.Gone = append(f.Gone, l.Peer)
		}
	}
	slices.Sort(f.Gone)
	return f
}

// Guard holds replacement back while too many are gone, while they come back, and to a pace.
// Its owner says when anything it depends on may have changed, and has it look.
type Guard struct {
	frozen   State
	comeback comeback
	doubts   bool // whether it is frozen may have changed
	limit    bucket
}

// Change is what a look at a Guard came to.
type Change uint8

// The changes.
const (
	Same  Change = iota
	Began        // it is frozen now
	Ended        // it is not any more, and waits for those that come back
)

// Doubt says that a peer may have vanished or come back.
func (g *Guard) Doubt() { g.doubts = true }

// Review looks anew, if there is a doubt. look lists who has vanished, and counts all others there
// are; back tells whether a peer has come back, or is not missed. Over tells that the wait for
// those that come back has just ended.
func (g *Guard) Review(look func() ([]Vanished, int), back func(taskstate.PeerID) bool, now time.Time) (ch Change, over bool) {
	if !g.doubts {
		return Same, false
	}
	g.doubts = false
	was := g.frozen
	g.frozen = Of(look())
	switch {
	case g.frozen.Active() && !was.Active():
		g.comeback, ch = comeback{}, Began
	case !g.frozen.Active() && was.Active():
		g.comeback.begin(was.Gone, now)
		ch = Ended
	}
	return ch, g.comeback.look(back, now)
}

// Frozen tells whether and why nothing is replaced.
func (g *Guard) Frozen() State { return g.frozen }

// Returning is until when those that come back from a freeze are waited for; zero: they are not.
func (g *Guard) Returning(now time.Time) time.Time {
	if now.Before(g.comeback.until) {
		return g.comeback.until
	}
	return time.Time{}
}

// Spend takes a token for a replacement, if there is one of burst, refilled one by one; otherwise
// next is when there will be.
func (g *Guard) Spend(now time.Time, burst int, every time.Duration) (ok bool, next time.Time) {
	return g.limit.take(now, burst, every)
}

// comeback holds replacement back after a freeze that the return of peers ended, as long as more of
// them come back.
type comeback struct {
	gone    []taskstate.PeerID // vanished together
	missing int                // of them, as it looked last
	first   time.Time          // when the freeze ended
	until   time.Time
}

// begin starts to wait for those of a freeze that are not back.
func (b *comeback) begin(gone []taskstate.PeerID, now time.Time) {
	*b = comeback{gone: slices.Clone(gone), missing: len(gone), first: now, until: now.Add(Settle)}
}

// look counts those who are not back, or vanished again; each return has the others waited for
// anew, but not for ever. It tells whether the wait ends.
func (b *comeback) look(back func(taskstate.PeerID) bool, now time.Time) (over bool) {
	if b.until.IsZero() {
		return false
	}
	missing := 0
	for _, id := range b.gone {
		if !back(id) {
			missing++
		}
	}
	if missing < b.missing && now.Before(b.until) {
		b.until = now.Add(Settle)
		if last := b.first.Add(within); b.until.After(last) {
			b.until = last
		}
	}
	b.missing = min(b.missing, missing) // one that comes and goes is waited for as one return
	if missing > 0 && now.Before(b.until) {
		return false
	}
	*b = comeback{}
	return true
}

// bucket limits how often something may happen: a token for each time, refilled one by one.
type bucket struct {
	spent  int       // tokens missing
	refill time.Time // when the next missing token is back
}

// take takes a token if there is one of burst; otherwise next is when there will be.
func (b *bucket) take(now time.Time, burst int, every time.Duration) (ok bool, next time.Time) {
	for b.spent > 0 && !now.Before(b.refill) {
		b.spent--
		b.refill = b.refill.Add(every)
	}
	if b.spent >= burst {
		return false, b.refill
	}
	if b.spent == 0 {
		b.refill = now.Add(every)
	}
	b.spent++
	return true, time.Time{}
}
