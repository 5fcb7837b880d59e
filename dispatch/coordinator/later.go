package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// laterQueue is slots that wait for their time, the earliest first.
type laterQueue []laterSlot

type laterSlot struct {
	ledger.Slots
	version int
	at      int64 // ledger stamp
}

func (q *laterQueue) add(s laterSlot) {
	i, _ := slices.BinarySearchFunc(*q, s.at+1, func(x laterSlot, at int64) int { return cmp.Compare(x.at, at) })
	*q = slices.Insert(*q, i, s)
}

func (q *laterQueue) remove(slot int) bool {
	i := slices.IndexFunc(*q, func(s laterSlot) bool { return s.First == slot })
	if i < 0 {
		return false
	}
	*q = slices.Delete(*q, i, i+1)
	return true
}

// wait queues slots that nobody has.
func (j *jobState) wait(run ledger.Slots, version int, pin taskstate.PeerID) {
	l := j.group(version, pin)
	if run.Attempt > max(j.first, 1) {
		l.again.add(run)
	} else {
		l.fresh.add(run)
	}
}

// waitAgain queues a slot that nobody was given after all.
func (j *jobState) waitAgain(slot, attempt int) {
	version := j.job.Version
	if j.lasting != nil {
		s := j.lasting.slot(slot)
		if !s.waits {
			return
		}
		version = s.version
	}
	j.wait(ledger.Slots{First: slot, N: 1, Attempt: attempt}, version, j.lasting.pinOf(slot))
}

// waits mirrors slots that wait for an attempt since an entry was applied. Renewed tells that they
// may have waited before.
func (js *jobs) waits(a ledger.Again, renewed bool) {
	j := js.of(a.Job)
	switch {
	case j == nil:
		js.agenda.startOver("a job that was over goes on: " + string(a.Job))
		return
	case j.cancelled:
		j.cancelled = false // somebody wants it after all
	}
	for n := a.Slots.First; n < a.Slots.First+a.Slots.N; n++ {
		j.lasting.waits(n, a.Slots.Attempt, a.Version)
		if renewed && j.waitedBefore(n, a.Version, a.Slots.Attempt) || j.lasting == nil && !renewed && a.NotBefore <= js.clock.Stamp() {
			continue
		}
		js.waitsOne(j, ledger.Slots{First: n, N: 1, Attempt: a.Slots.Attempt}, a)
	}
	if j.lasting == nil && !renewed && a.NotBefore <= js.clock.Stamp() {
		j.wait(a.Slots, a.Version, "") // the usual case, in one piece
	}
}

func (js *jobs) waitsOne(j *jobState, slot ledger.Slots, a ledger.Again) {
	if a.NotBefore > js.clock.Stamp() {
		j.later.add(laterSlot{Slots: slot, version: a.Version, at: a.NotBefore})
		js.clock.WakeAt(js.clock.When(j.later[0].at))
		return
	}
	j.wait(slot, a.Version, j.lasting.pinOf(slot.First))
}

// waitedBefore takes a slot out of wherever it waits. It tells whether the slot is under way as
// what it waits for now: then nothing changes. An assignment of another version will be refused,
// and so will one of an attempt from before a cancel that was taken back.
func (j *jobState) waitedBefore(slot, version, attempt int) bool {
	if j.unwait(slot) {
		return false
	}
	for _, x := range j.inflight {
		if slot < x.First || slot >= x.First+x.N || j.early[slot] {
			continue
		}
		if x.body.Version == version && x.Attempt == attempt {
			return true
		}
		if j.early == nil {
			j.early = map[int]bool{}
		}
		j.early[slot] = true
	}
	return false
}

// dueLater queues the slots whose time has come.
func (js *jobs) dueLater() {
	for _, j := range js.withLater() {
		for len(j.later) > 0 && j.later[0].at <= js.clock.Stamp() {
			s := j.later[0]
			j.later = j.later[1:]
			j.wait(s.Slots, s.version, j.lasting.pinOf(s.First))
		}
		if len(j.later) > 0 {
			js.clock.WakeAt(js.clock.When(j.later[0].at))
		}
		js.enqueue(j)
	}
}

// withLater lists the jobs with slots that wait for their time, the oldest first.
func (js *jobs) withLater() []*jobState {
	var out []*jobState
	for _, j := range js.all {
		if len(j.later) > 0 {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *jobState) int { return cmp.Compare(a.index, b.index) })
	return out
}

// waitsFor says what a job's slots wait for besides room; "" if nothing.
func (js *jobs) waitsFor(j *jobState) string {
	if j.blocked {
		var names []string
		for _, id := range j.job.After {
			if b := js.of(id); b != nil {
				names = append(names, strings.TrimSpace(b.job.Name+" "+string(id)))
			}
		}
		return "after: " + strings.Join(names, ", ") + " must be complete first"
	}
	if n := len(j.later); n > 0 && n == j.pending() {
		return fmt.Sprintf("restart: the next attempt starts in %s", max(0, js.clock.When(j.later[0].at).Sub(js.clock.Now())).Round(100*time.Millisecond))
	}
	return ""
}
