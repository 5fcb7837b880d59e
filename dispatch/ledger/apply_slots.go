package ledger

import (
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// renewable tells whether a job's slots can be renewed at all.
func (b *jobTable) renewable(j *JobRecord, c *Renew, w *Warrants) Result {
	switch {
	case len(c.Slots) == 0, j.long == nil && c.Version != 0:
		return Result{Refused: CodeInvalid}
	case w.void(j.job):
		return Result{Refused: CodeForbidden, Job: j.job.ID}
	case j.cancelled && (j.Lasts() || !j.over):
		return Result{Refused: CodeOver}
	case j.long.unknown(c.Seen, b.head.index):
		return Result{Refused: CodeConflict}
	case j.long != nil && j.JobOf(c.Version) == nil:
		return Result{Refused: CodeUnknown}
	}
	if old := b.names.holder(j); j.over && old != nil {
		return Result{Refused: CodeConflict, Job: old.job.ID}
	}
	if b.startsOver(j) {
		if before := b.failedBefore(j); before != nil {
			return Result{Refused: CodeBlocked, Job: before.job.ID}
		}
	}
	return Result{}
}

// startsOver reports whether a job that is renewed has to wait for those it comes after.
func (b *jobTable) startsOver(j *JobRecord) bool {
	return j.over && j.long == nil && b.roster.speaks() >= followsAgain
}

func (b *jobTable) renew(c *Renew, w *Warrants) Result {
	j, ok := b.jobs[c.Job]
	if !ok {
		return Result{Refused: CodeUnknown}
	}
	if r := b.renewable(j, c, w); r.Refused != CodeNone {
		return r
	}
	var slots []int
	found := false
	r := j.slots.eachSlot(c.Slots, func(n, attempt int) bool {
		was := j.slots.get(n)
		if attempt != 0 && attempt != j.slots.attempt(was) {
			return false
		}
		found = true
		if !j.cancelled || was.kind >= kindOpen || j.slots.extrasOf(n).Retired { // others wait again once the cancel is taken back
			slots = append(slots, n)
		}
		return true
	})
	if !found {
		return r
	}
	j.long.moves(b.head.index)
	over, again := j.over, b.startsOver(j)
	if j.cancelled {
		b.lift(j)
	}
	var waiting runs // put among the others at once: one by one, scattered slots would cost the square of their number
	slices.Sort(slots)
	var leaving []int
	for _, n := range slots {
		if attempt, again := j.renewSlot(n, c, b.turn()); again {
			waiting.add(Slots{First: n, N: 1, Attempt: attempt})
		} else if j.slots.get(n).kind == kindOpen {
			leaving = append(leaving, n)
		}
	}
	j.slots.pending = j.slots.pending.merge(waiting)
	if j.job.MaxFails > 0 {
		j.forgiven = j.slots.counts.Failed + j.slots.counts.Rejected
	}
	b.reopen(j)
	if again && !j.over {
		b.follow(j)
		b.takeAlong(j, w)
	}
	if len(j.slots.kinds.list) > 1024+2*j.slots.count {
		j.slots.tidyKinds()
		j.slots.saved.tidy()
	}
	if over && !j.over {
		r.Reopened = j.Outline()
	}
	r.Now = j.outline(leaving...)
	return r
}

// renewSlot renews one slot. again says that it waits and did not before.
func (j *JobRecord) renewSlot(n int, c *Renew, t applying) (attempt int, again bool) {
	x, was := j.slots.extrasOf(n), j.slots.get(n)
	version := uint32(c.Version)
	if version == 0 {
		version = uint32(j.slots.version(x))
	}
	if was.kind == kindOpen {
		x.Leaving, x.Retired, x.Reason, x.Next, x.NotBefore = true, false, c.Reason, version, c.NotBefore
		j.slots.putExtras(n, x)
		return 0, false
	}
	waits := was.kind < kindOpen
	if retired := x.Retired; retired || !waits {
		cell, _ := j.slots.at(n)
		if retired {
			j.slots.counts.Retired--
		} else {
			j.slots.counts.count(j.slots.kinds.list[was.kind-kindFirst].State, -1)
		}
		if !waits {
			j.slots.stale = true
			j.past.remember(n, cell, formerAttempt{GivenUp: t.stamp, Reason: c.Reason, Version: uint32(j.slots.version(x)), End: endOfCell(j, was)})
		}
		x.Retired, x.Reason, x.At = false, "", 0
		j.slots.renewExtras(n, &x, version, c.NotBefore)
		return j.next(n, cell, x, t), true
	}
	j.slots.renewExtras(n, &x, version, c.NotBefore)
	t.effects.waits(j, n, j.slots.attempt(was), x)
	return 0, false
}

// lift takes a cancel back: what waited when the job was cancelled waits again, in attempts that
// nobody has heard of as cut off.
func (b *jobTable) lift(j *JobRecord) {
	j.cancelled, j.why, j.reason, j.at = false, "", "", 0
	b.finished.reopen(j)
	top, any := j.slots.first, false
	for n := 1; n <= j.slots.count; n++ {
		if c := j.slots.get(n); c.kind < kindOpen && !j.slots.extrasOf(n).Retired {
			top, any = max(top, uint32(j.slots.attempt(c))), true
		}
	}
	if any {
		j.slots.first = top + 1
	}
	if b.head.generation > 1 {
		j.slots.raise()
	}
	for n := 1; n <= j.slots.count; n++ {
		if c := j.slots.get(n); c.kind < kindOpen && !j.slots.extrasOf(n).Retired {
			j.slots.pending.add(Slots{First: n, N: 1, Attempt: j.slots.attempt(c)})
			j.slots.counts.Pending++
			j.slots.counts.Shutdown--
			b.effects.waits(j, n, j.slots.attempt(c), j.slots.extrasOf(n))
		}
	}
}

// reopen has a job go on that was over, if something of it waits again.
func (b *jobTable) reopen(j *JobRecord) {
	if j.done() {
		b.close(j)
		return
	}
	if j.over {
		b.finished.reopen(j)
	}
	b.names.claim(j)
}

func (b *jobTable) retire(c *Retire) Result {
	j, ok := b.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.over || j.cancelled:
		return Result{Refused: CodeOver}
	case len(c.Slots) == 0:
		return Result{Refused: CodeInvalid}
	case j.long.unknown(c.Seen, b.head.index):
		return Result{Refused: CodeConflict}
	}
	var slots []int
	r := j.slots.eachSlot(c.Slots, func(n, attempt int) bool {
		was := j.slots.get(n)
		if attempt != 0 && attempt != j.slots.attempt(was) || !j.retireSlot(n, was, c.Reason, b.turn()) {
			return false
		}
		slots = append(slots, n)
		return true
	})
	b.close(j)
	if len(slots) > 0 {
		r.Now = j.outline(slots...)
	}
	return r
}

func (j *JobRecord) retireSlot(n int, was cell, why taskstate.Reason, t applying) bool {
	x := j.slots.extrasOf(n)
	if x.Retired {
		return true
	}
	j.long.moves(t.index)
	switch {
	case was.kind == kindOpen:
		x.Leaving, x.Next, x.NotBefore = true, 0, 0
	case was.kind < kindOpen:
		j.slots.pending.remove(Slots{First: n, N: 1, Attempt: j.slots.attempt(was)}, func(int, int) {}, nil)
		j.slots.counts.Pending--
		j.slots.counts.Retired++
		x.At, x.NotBefore, x.History = t.stamp, 0, taskstate.History{}
	case j.long == nil:
		return false
	default:
		j.slots.counts.count(j.slots.kinds.list[was.kind-kindFirst].State, -1)
		j.slots.counts.Retired++
	}
	x.Retired, x.Reason = true, why
	j.slots.putExtras(n, x)
	return true
}

func (b *jobTable) grow(c *Grow) Result {
	j, ok := b.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.long == nil, c.N < 0, c.N > 0 == (len(c.Peers) > 0):
		return Result{Refused: CodeInvalid}
	case j.over || j.cancelled:
		return Result{Refused: CodeOver}
	case j.long.unknown(c.Seen, b.head.index):
		return Result{Refused: CodeConflict}
	case j.JobOf(c.Version) == nil:
		return Result{Refused: CodeUnknown}
	case c.First != 0 && c.First != j.slots.count+1:
		return Result{Refused: CodeConflict}
	case c.N > MaxSlots-j.slots.count || len(c.Peers) > MaxSlots-j.slots.count:
		return Result{Refused: CodeInvalid}
	}
	x := slotExtras{Version: uint32(c.Version)}
	if c.Version == 0 {
		x.Version = uint32(j.job.Version)
	}
	for range c.N {
		j.add(x, b.turn())
	}
	var pinned []int
	for _, p := range c.Peers {
		if _, has := j.long.pins[p]; !has && p != "" {
			x.Pin = p
			j.long.pins[p] = j.slots.count + 1
			j.add(x, b.turn())
			pinned = append(pinned, j.slots.count)
		}
	}
	if c.N+len(pinned) == 0 {
		return Result{Existed: true}
	}
	return Result{Now: j.outline(pinned...)}
}

// add appends a slot.
func (j *JobRecord) add(x slotExtras, t applying) {
	j.long.moves(t.index)
	j.slots.count++
	n := j.slots.count
	attempt := j.slots.attempt(cell{})
	j.slots.putExtras(n, x)
	j.slots.pending.add(Slots{First: n, N: 1, Attempt: attempt})
	j.slots.counts.Pending++
	t.effects.waits(j, n, attempt, x)
}

// endOfCell is the end that a cell has.
func endOfCell(j *JobRecord, c cell) *formerEnd {
	return newFormerEnd(j.slots.kinds.list[c.kind-kindFirst], c.end, c.seq, c.lasted)
}
