package ledger

import (
	"slices"

	"covey/taskstate"
)

// eachSlot calls f for the slots of runs that there are, and lists those that f, or their absence,
// refuses.
func (j *JobRecord) eachSlot(runs []Slots, f func(n, attempt int) bool) Result {
	var refused []Slots
	for _, want := range runs {
		inside, outside := j.within(want)
		refused = append(refused, outside...)
		for n := inside.First; n < inside.First+inside.N; n++ {
			if !f(n, want.Attempt) {
				refused = addSlot(refused, n, want.Attempt)
			}
		}
	}
	if len(refused) > 0 {
		return Result{Refused: CodePartly, Slots: refused}
	}
	return Result{}
}

// renewable tells whether a job's slots can be renewed at all.
func (s *State) renewable(j *JobRecord, c *Renew) Result {
	switch {
	case len(c.Slots) == 0, j.long == nil && c.Version != 0:
		return Result{Refused: CodeInvalid}
	case j.cancelled && (j.Lasts() || !j.over):
		return Result{Refused: CodeOver}
	case j.long.unknown(c.Seen, s.index):
		return Result{Refused: CodeConflict}
	case j.long != nil && j.JobOf(c.Version) == nil:
		return Result{Refused: CodeUnknown}
	}
	if old := s.names[j.job.Name]; j.over && j.unique() && old != nil {
		return Result{Refused: CodeConflict, Job: old.job.ID}
	}
	return Result{}
}

func (s *State) renew(c *Renew) Result {
	j, ok := s.jobs[c.Job]
	if !ok {
		return Result{Refused: CodeUnknown}
	}
	if r := s.renewable(j, c); r.Refused != CodeNone {
		return r
	}
	var slots []int
	found := false
	r := j.eachSlot(c.Slots, func(n, attempt int) bool {
		was := j.slots.get(n)
		if attempt != 0 && attempt != j.attempt(was) {
			return false
		}
		found = true
		if !j.cancelled || was.kind >= kindOpen || j.extrasOf(n).retired { // others wait again once the cancel is taken back
			slots = append(slots, n)
		}
		return true
	})
	if !found {
		return r
	}
	j.long.moves(s.index)
	over := j.over
	if j.cancelled {
		s.lift(j)
	}
	var waiting runs // put among the others at once: one by one, scattered slots would cost the square of their number
	slices.Sort(slots)
	for _, n := range slots {
		if attempt, again := s.renewSlot(j, n, c); again {
			waiting.add(Slots{First: n, N: 1, Attempt: attempt})
		}
	}
	j.pending = j.pending.merge(waiting)
	if j.job.MaxFails > 0 {
		j.forgiven = j.counts.Failed + j.counts.Rejected
	}
	s.reopen(j)
	if len(j.kinds.list) > 1024+2*j.slots.count {
		j.tidyKinds()
	}
	if over && !j.over {
		r.Reopened = j.Outline()
	}
	return r
}

// renewSlot renews one slot. again says that it waits and did not before.
func (s *State) renewSlot(j *JobRecord, n int, c *Renew) (attempt int, again bool) {
	x, was := j.extrasOf(n), j.slots.get(n)
	version := uint32(c.Version)
	if version == 0 {
		version = uint32(j.version(x))
	}
	if was.kind == kindOpen {
		x.leaving, x.retired, x.reason, x.next, x.notBefore = true, false, c.Reason, version, c.NotBefore
		j.putExtras(n, x)
		return 0, false
	}
	waits := was.kind < kindOpen
	if retired := x.retired; retired || !waits {
		cell, _ := j.slots.at(n)
		if retired {
			j.counts.Retired--
		} else {
			j.counts.count(j.kinds.list[was.kind-kindFirst].State, -1)
		}
		if !waits {
			j.stale = true
			j.remember(n, cell, formerAttempt{givenUp: s.stamp, reason: c.Reason, version: uint32(j.version(x)), end: endOfCell(j, was)})
		}
		x.retired, x.reason, x.at = false, "", 0
		j.renewExtras(n, &x, version, c.NotBefore)
		return s.next(j, n, cell, x), true
	}
	j.renewExtras(n, &x, version, c.NotBefore)
	s.effects.waits(j, n, j.attempt(was), x)
	return 0, false
}

func (j *JobRecord) renewExtras(n int, x *slotExtras, version uint32, notBefore int64) {
	if j.version(*x) != int(version) {
		x.history = taskstate.History{}
	}
	x.version, x.notBefore = version, notBefore
	j.putExtras(n, *x)
}

// lift takes a cancel back: what waited when the job was cancelled waits again, in attempts that
// nobody has heard of as cut off.
func (s *State) lift(j *JobRecord) {
	j.cancelled, j.why, j.reason, j.at = false, "", "", 0
	j.over, j.ended = false, 0
	s.finished = slices.DeleteFunc(s.finished, func(x *JobRecord) bool { return x == j })
	s.kept -= j.weight
	j.weight = 0
	top, any := j.first, false
	for n := 1; n <= j.slots.count; n++ {
		if c := j.slots.get(n); c.kind < kindOpen && !j.extrasOf(n).retired {
			top, any = max(top, uint32(j.attempt(c))), true
		}
	}
	if any {
		j.first = top + 1
	}
	if s.generation > 1 {
		j.raise()
	}
	for n := 1; n <= j.slots.count; n++ {
		if c := j.slots.get(n); c.kind < kindOpen && !j.extrasOf(n).retired {
			j.pending.add(Slots{First: n, N: 1, Attempt: j.attempt(c)})
			j.counts.Pending++
			j.counts.Shutdown--
			s.effects.waits(j, n, j.attempt(c), j.extrasOf(n))
		}
	}
}

// reopen has a job go on that was over, if something of it waits again.
func (s *State) reopen(j *JobRecord) {
	if j.done() {
		s.close(j)
		return
	}
	if j.over {
		j.over, j.ended = false, 0
		s.finished = slices.DeleteFunc(s.finished, func(x *JobRecord) bool { return x == j })
		s.kept -= j.weight
		j.weight = 0
	}
	if j.unique() {
		s.names[j.job.Name] = j
	}
}

func (s *State) retire(c *Retire) Result {
	j, ok := s.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.over || j.cancelled:
		return Result{Refused: CodeOver}
	case len(c.Slots) == 0:
		return Result{Refused: CodeInvalid}
	case j.long.unknown(c.Seen, s.index):
		return Result{Refused: CodeConflict}
	}
	r := j.eachSlot(c.Slots, func(n, attempt int) bool {
		was := j.slots.get(n)
		if attempt != 0 && attempt != j.attempt(was) {
			return false
		}
		return s.retireSlot(j, n, was, c.Reason)
	})
	s.close(j)
	return r
}

func (s *State) retireSlot(j *JobRecord, n int, was cell, why taskstate.Reason) bool {
	x := j.extrasOf(n)
	if x.retired {
		return true
	}
	j.long.moves(s.index)
	switch {
	case was.kind == kindOpen:
		x.leaving, x.next, x.notBefore = true, 0, 0
	case was.kind < kindOpen:
		j.pending.take(Slots{First: n, N: 1, Attempt: j.attempt(was)}, func(int, int) {}, nil)
		j.counts.Pending--
		j.counts.Retired++
		x.at, x.notBefore, x.history = s.stamp, 0, taskstate.History{}
	case j.long == nil:
		return false
	default:
		j.counts.count(j.kinds.list[was.kind-kindFirst].State, -1)
		j.counts.Retired++
	}
	x.retired, x.reason = true, why
	j.putExtras(n, x)
	return true
}

func (s *State) grow(c *Grow) Result {
	j, ok := s.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.long == nil, c.N < 0, c.N > 0 == (len(c.Peers) > 0):
		return Result{Refused: CodeInvalid}
	case j.over || j.cancelled:
		return Result{Refused: CodeOver}
	case j.long.unknown(c.Seen, s.index):
		return Result{Refused: CodeConflict}
	case j.JobOf(c.Version) == nil:
		return Result{Refused: CodeUnknown}
	case c.First != 0 && c.First != j.slots.count+1:
		return Result{Refused: CodeConflict}
	case c.N > MaxSlots-j.slots.count || len(c.Peers) > MaxSlots-j.slots.count:
		return Result{Refused: CodeInvalid}
	}
	x := slotExtras{version: uint32(c.Version)}
	if c.Version == 0 {
		x.version = uint32(j.job.Version)
	}
	for range c.N {
		s.add(j, x)
	}
	added := c.N
	for _, p := range c.Peers {
		if _, has := j.long.pins[p]; !has && p != "" {
			x.pin = p
			j.long.pins[p] = j.slots.count + 1
			s.add(j, x)
			added++
		}
	}
	return Result{Existed: added == 0}
}

// add appends a slot.
func (s *State) add(j *JobRecord, x slotExtras) {
	j.long.moves(s.index)
	j.slots.count++
	n := j.slots.count
	attempt := j.attempt(cell{})
	j.putExtras(n, x)
	j.pending.add(Slots{First: n, N: 1, Attempt: attempt})
	j.counts.Pending++
	s.effects.waits(j, n, attempt, x)
}
