package ledger

import (
	"math"

	"covey/taskstate"
)

func (s *State) assign(a *Assign) Result {
	j, ok := s.jobs[a.Job]
	code := CodeNone
	m := s.roster.members[a.Peer]
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
	id := s.owners.id(a.Peer, a.Incarnation)
	wanted, refused := a.Slots, []Slots(nil)
	if j.long != nil {
		wanted, refused = j.slots.assignable(a)
	}
	for _, want := range wanted {
		attempt, taken := uint32(want.Attempt), 0
		refused = j.slots.pending.remove(want, func(first, n int) {
			for i := first; i < first+n; i++ {
				c, ch := j.slots.at(i)
				*c = cell{index: s.index, assigned: s.stamp, owner: id, attempt: attempt, kind: kindOpen}
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
			if t.version(x) == a.Version && (x.pin == "" || x.pin == a.Peer) {
				wanted = addSlot(wanted, n, want.Attempt)
			} else {
				refused = addSlot(refused, n, want.Attempt)
			}
		}
	}
	return wanted, refused
}

// addSlot adds a slot behind a list of runs.
func addSlot(list []Slots, n, attempt int) []Slots {
	if k := len(list) - 1; k >= 0 && list[k].First+list[k].N == n && list[k].Attempt == attempt {
		list[k].N++
		return list
	}
	return append(list, Slots{First: n, N: 1, Attempt: attempt})
}

func (s *State) settle(c *Settle) Result {
	id, known := s.owners.ids[owner{Peer: c.Peer, Incarnation: c.Incarnation}]
	var refused, overtaken []taskstate.TaskID
	var j *JobRecord
	for i := range c.Statuses {
		st := &c.Statuses[i]
		if j == nil || j.job.ID != st.Task.Job {
			j = s.jobs[st.Task.Job]
		}
		if j == nil || !known {
			refused = append(refused, st.Task)
			continue
		}
		ok, gone := j.settle(id, st, s.turn())
		if !ok {
			refused = append(refused, st.Task)
			continue
		}
		if gone != nil {
			overtaken = append(overtaken, *gone)
		}
		if j.slots.counts.Pending+j.slots.counts.Open == 0 || j.job.MaxFails > 0 {
			s.close(j)
		}
	}
	if len(refused) > 0 {
		return Result{Refused: CodePartly, Statuses: refused, Overtaken: overtaken}
	}
	return Result{Overtaken: overtaken}
}

// settle makes a worker's status the end of its slot, if it is an end, the newest attempt, and
// its author has it; see late for older attempts.
func (j *JobRecord) settle(by uint32, st *taskstate.Status, t turn) (ok bool, overtaken *taskstate.TaskID) {
	n := st.Task.Slot
	if n < 1 || n > j.slots.count || !isEnd(st.State) {
		return false, nil
	}
	c, ch := j.slots.peek(n)
	if c != nil && int(c.attempt) != st.Task.Attempt {
		return j.late(by, st, t.stamp)
	}
	if c == nil || c.kind < kindOpen || c.owner != by {
		return false, nil
	}
	if c.kind != kindOpen {
		if c.seq != seq32(st) || c.end != st.At || j.slots.kinds.list[c.kind-kindFirst] != endKindOf(st) {
			j.past.contradict(st, by, t.stamp)
		}
		return false, nil
	}
	j.conclude(c, ch, st, t)
	return true, nil
}

func isEnd(st taskstate.State) bool { return st.Final() && st.Valid() }

// seq32 is a status's number as a cell keeps it; no honest worker gets near the end.
func seq32(st *taskstate.Status) uint32 { return uint32(min(st.Seq, math.MaxUint32)) }

func (c *Counts) count(st taskstate.State, n int) {
	switch st {
	case taskstate.Complete:
		c.Complete += n
	case taskstate.Failed:
		c.Failed += n
	case taskstate.Rejected:
		c.Rejected += n
	case taskstate.Shutdown:
		c.Shutdown += n
	default:
		c.Orphaned += n
	}
}
