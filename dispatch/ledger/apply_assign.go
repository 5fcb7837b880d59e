package ledger

import (
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// assign gives slots to a peer, which is a member, or not.
func (b *jobTable) assign(a *Assign, m *Member) Result {
	j, ok := b.jobs[a.Job]
	code := CodeNone
	switch {
	case !ok || m == nil || !m.In() || m.Left || m.Incarnation != a.Incarnation:
		code = CodeUnknown
	case j.over || j.cancelled:
		code = CodeOver
	case len(j.blocked) > 0 || j.Scheduled():
		code = CodeBlocked
	case !m.Takes():
		code = CodeUnavailable
	case j.long == nil && a.Version != 0:
		code = CodeConflict
	}
	if code != CodeNone {
		return Result{Refused: code, Slots: a.Slots}
	}
	id := b.owners.id(a.Peer, a.Incarnation)
	wanted, refused := a.Slots, []Slots(nil)
	if j.long != nil {
		wanted, refused = j.slots.assignable(a)
	}
	for _, want := range wanted {
		attempt, taken := uint32(want.Attempt), 0
		refused = j.slots.pending.remove(want, func(first, n int) {
			for i := first; i < first+n; i++ {
				c, ch := j.slots.at(i)
				*c = cell{index: b.head.index, assigned: b.head.stamp, owner: id, attempt: attempt, kind: kindOpen}
				ch.open++
			}
			j.slots.begun(first, n)
			taken += n
		}, refused)
		if taken > 0 {
			j.slots.open[id] += taken
			j.slots.counts.Pending -= taken
			j.slots.counts.Open += taken
		}
	}
	if len(refused) > 0 {
		return Result{Refused: CodePartly, Slots: refused}
	}
	return Result{}
}

// assignable tells the slots of a lasting job that wait for this version and may go to this peer
// from the others.
func (t *slotTable) assignable(a *Assign) (wanted, refused []Slots) {
	for _, want := range a.Slots {
		inside, outside := t.within(want)
		refused = append(refused, outside...)
		for n := range inside.All() {
			x := t.extrasOf(n)
			if t.version(x) == a.Version && (x.Pin == "" || x.Pin == a.Peer) {
				wanted = AppendSlots(wanted, Slots{First: n, N: 1, Attempt: want.Attempt})
			} else {
				refused = AppendSlots(refused, Slots{First: n, N: 1, Attempt: want.Attempt})
			}
		}
	}
	return wanted, refused
}

func (b *jobTable) settle(c *Settle) Result {
	id, known := b.owners.ids[owner{Peer: c.Peer, Incarnation: c.Incarnation}]
	var refused, overtaken []taskstate.TaskID
	var j *JobRecord
	for i := range c.Statuses {
		st := &c.Statuses[i]
		if j == nil || j.job.ID != st.Task.Job {
			j = b.jobs[st.Task.Job]
		}
		if j == nil || !known {
			refused = append(refused, st.Task)
			continue
		}
		ok, gone := j.settle(id, st, b.turn())
		if !ok {
			refused = append(refused, st.Task)
			continue
		}
		if gone != nil {
			overtaken = append(overtaken, *gone)
		}
		if j.slots.counts.Pending+j.slots.counts.Open == 0 || j.job.MaxFails > 0 {
			b.close(j)
		}
	}
	if len(refused) > 0 {
		return Result{Refused: CodePartly, Statuses: refused, Overtaken: overtaken}
	}
	return Result{Overtaken: overtaken}
}

// settle makes a worker's status the end of its slot, if it is an end, the newest attempt, and
// its author has it; see late for older attempts.
func (j *JobRecord) settle(by uint32, st *taskstate.Status, t applying) (ok bool, overtaken *taskstate.TaskID) {
	n := st.Task.Slot
	if n < 1 || n > j.slots.count || !isEnd(st.State) {
		return false, nil
	}
	c, ch := j.slots.peek(n)
	if c != nil && j.slots.attempt(*c) != st.Task.Attempt {
		return j.late(by, st, t.stamp)
	}
	if c == nil || c.kind < kindOpen || c.owner != by {
		return false, nil
	}
	if c.kind != kindOpen {
		same := c.seq == seq32(st) && c.end == st.At && j.slots.kinds.list[c.kind-kindFirst] == endKindOf(st)
		if !same || !j.slots.savedOf(n, c).Same(j.slots.keptOf(st)) {
			j.past.contradict(st, by, t.stamp)
		}
		return false, nil
	}
	j.conclude(c, ch, st, t)
	return true, nil
}

// late takes the end of an attempt that was given up. A success counts if the slot has no end: then
// it is the slot's, and the open attempt that took its place, if there is one, is over. Anything
// else is remembered, and so is a success in a job that lasts: its slots go on. counts is false if
// the end was refused.
func (j *JobRecord) late(by uint32, st *taskstate.Status, stamp int64) (counts bool, overtaken *taskstate.TaskID) {
	list := j.past.former[uint32(st.Task.Slot)]
	i := slices.IndexFunc(list, func(p formerAttempt) bool { return int(p.Attempt) == st.Task.Attempt && p.Owner == by })
	if i < 0 {
		return false, nil
	}
	if old := list[i].End; old != nil { // it was not given up, it ended
		if *old != *endOf(st) {
			j.past.contradict(st, by, stamp)
		}
		return false, nil
	}
	c, ch := j.slots.peek(st.Task.Slot)
	ended := c.kind >= kindFirst || c.kind != kindOpen && (j.cancelled || j.slots.extrasOf(st.Task.Slot).Retired)
	if ended || j.Lasts() || st.State != taskstate.Complete {
		end := LateEnd{State: st.State, Exit: st.Exit, At: st.At, Heard: stamp, Took: st.Took}
		switch old := list[i].Late; {
		case old == nil:
			list[i].Late = &end
		case old.State != end.State || old.Exit != end.Exit || old.At != end.At:
			j.past.contradict(st, by, stamp)
		}
		return false, nil
	}
	return true, j.overtake(c, ch, list[i], st, stamp)
}

// overtake makes the success of p its slot's end.
func (j *JobRecord) overtake(c *cell, ch *chunk, p formerAttempt, st *taskstate.Status, stamp int64) (overtaken *taskstate.TaskID) {
	n := st.Task.Slot
	if c.kind == kindOpen {
		t := taskstate.Task(j.job.ID, n, int(c.attempt))
		overtaken = &t
		j.past.remember(n, c, formerAttempt{GivenUp: stamp, Reason: taskstate.ReasonOvertaken})
	} else { // as if it had been given out and were open
		j.slots.pending.remove(Slots{First: n, N: 1, Attempt: j.slots.attempt(*c)}, func(int, int) {}, nil)
		j.slots.counts.Pending--
		j.slots.counts.Open++
		c.owner = p.Owner
		j.slots.open[c.owner]++
		ch.open++
	}
	j.slots.closeOpen(c, ch)
	*c = cell{
		index: p.Index, assigned: p.Assigned, owner: p.Owner, attempt: p.Attempt,
		kind: j.slots.kinds.id(endKindOf(st)), end: st.At, seq: seq32(st), lasted: lastedOf(st),
	}
	j.slots.keep(n, c, j.slots.keptOf(st))
	if x := j.slots.extrasOf(n); x.Retired {
		x.Leaving = false // the attempt that was to go is over
		j.slots.putExtras(n, x)
		j.slots.counts.Retired++
	} else {
		j.slots.putExtras(n, slotExtras{})
		j.slots.counts.count(st.State, 1)
	}
	return overtaken
}
