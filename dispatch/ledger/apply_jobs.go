package ledger

import (
	"math"

	"covey/p2p/wire"
	"covey/taskstate"
)

func (s *State) submit(c *Submit) Result {
	job := &c.Job
	if old, ok := s.jobs[job.ID]; ok {
		if sameJob(old.job, job) {
			return Result{Existed: true}
		}
		return Result{Existed: true, Refused: CodeConflict}
	}
	if s.gone.have[job.ID] {
		return Result{Existed: true, Refused: CodeOver}
	}
	if !submittable(job) {
		return Result{Refused: CodeInvalid}
	}
	kept := *job
	j := newJobRecord(&kept, s.index, s.stamp, &s.owners)
	if first := c.FirstAttempt(s.generation); first > 1 {
		j.first = uint32(first)
	}
	j.pending = runs{{First: 1, N: job.Count, Attempt: j.attempt(cell{})}}
	j.by, j.epoch = s.coordinator, s.epoch
	j.counts.Pending = job.Count
	s.jobs[job.ID] = j
	s.order = append(s.order, j)
	return Result{}
}

func submittable(job *taskstate.Job) bool {
	return job.ID != "" && job.Count >= 1 && job.Count <= MaxSlots && (len(job.Each) == 0 || len(job.Each) == job.Count)
}

func newJobRecord(job *taskstate.Job, index uint64, stamp int64, o *owners) *JobRecord {
	return &JobRecord{
		job: job, index: index, accepted: stamp, owners: o,
		slots: slotTable{count: job.Count}, open: map[uint32]int{},
	}
}

// sameJob compares what would be signed: encodings are deterministic.
func sameJob(a, b *taskstate.Job) bool {
	x, err1 := wire.Marshal(a)
	y, err2 := wire.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

func (s *State) cancel(c *Cancel) Result {
	j, ok := s.jobs[c.Job]
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.cancelled:
		return Result{Existed: true}
	case j.over:
		return Result{Refused: CodeOver}
	}
	j.cancelled, j.reason, j.at = true, c.Reason, s.stamp
	j.counts.Shutdown += j.counts.Pending // no cell is made for them: their end follows from the cancel
	j.counts.Pending = 0
	j.pending = nil
	s.close(j)
	return Result{}
}

func (s *State) assign(a *Assign) Result {
	j, ok := s.jobs[a.Job]
	code := CodeNone
	m := s.members[a.Peer]
	switch {
	case !ok || m == nil || !m.In() || m.Left || m.Incarnation != a.Incarnation:
		code = CodeUnknown
	case j.over || j.cancelled:
		code = CodeOver
	}
	if code != CodeNone {
		return Result{Refused: code, Slots: a.Slots}
	}
	id := s.owners.id(a.Peer, a.Incarnation)
	var refused []Slots
	for _, want := range a.Slots {
		attempt, taken := uint32(want.Attempt), 0
		refused = j.pending.take(want, func(first, n int) {
			for i := first; i < first+n; i++ {
				c, ch := j.slots.at(i)
				*c = cell{index: s.index, assigned: s.stamp, owner: id, attempt: attempt, form: formOpen}
				ch.open++
			}
			taken += n
		}, refused)
		if taken > 0 {
			j.open[id] += taken
			j.counts.Pending -= taken
			j.counts.Open += taken
		}
	}
	if len(refused) > 0 {
		return Result{Refused: CodePartly, Slots: refused}
	}
	return Result{}
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
		ok, gone := j.settle(id, st, s.stamp)
		if !ok {
			refused = append(refused, st.Task)
			continue
		}
		if gone != nil {
			overtaken = append(overtaken, *gone)
		}
		if j.counts.Pending+j.counts.Open == 0 {
			s.close(j)
		}
	}
	if len(refused) > 0 {
		return Result{Refused: CodePartly, Statuses: refused, Overtaken: overtaken}
	}
	return Result{Overtaken: overtaken}
}

// settle makes a worker's status the end of its slot, if it is an end, the newest attempt, and its author has it; see late for
// older attempts.
func (j *JobRecord) settle(by uint32, st *taskstate.Status, stamp int64) (ok bool, overtaken *taskstate.TaskID) {
	n := st.Task.Slot
	if n < 1 || n > j.slots.count || !isEnd(st.State) {
		return false, nil
	}
	c, ch := j.slots.peek(n)
	if c != nil && int(c.attempt) != st.Task.Attempt {
		return j.late(by, st, stamp)
	}
	if c == nil || c.form < formOpen || c.owner != by {
		return false, nil
	}
	if c.form != formOpen {
		if c.seq != seq32(st) || c.end != st.At || j.forms.list[c.form-formFirst] != formOf(st) {
			j.contradict(st, by, stamp)
		}
		return false, nil
	}
	j.end(c, ch, st)
	return true, nil
}

func isEnd(st taskstate.State) bool { return st.Final() && st.Valid() }

// seq32 is a status's number as a cell keeps it; no honest worker gets near the end.
func seq32(st *taskstate.Status) uint32 { return uint32(min(st.Seq, math.MaxUint32)) }

// end closes an open slot.
func (j *JobRecord) end(c *cell, ch *chunk, st *taskstate.Status) {
	c.form, c.end, c.seq = j.forms.id(formOf(st)), st.At, seq32(st)
	j.shut(c, ch)
	j.counts.count(st.State, 1)
}

// shut takes a slot out of the open ones.
func (j *JobRecord) shut(c *cell, ch *chunk) {
	ch.open--
	j.counts.Open--
	if j.open[c.owner]--; j.open[c.owner] == 0 {
		delete(j.open, c.owner)
	}
}

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

func (s *State) supersede(c *Supersede) Result {
	j, ok := s.jobs[c.Task.Job]
	if !ok || c.Task.Slot < 1 || c.Task.Slot > j.slots.count {
		return Result{Refused: CodeUnknown}
	}
	if _, _, _, st := j.assigned(c.Task); st == taskstate.Retired {
		return Result{Refused: CodeOver}
	} else if st != taskstate.Known {
		return Result{Refused: CodeUnknown}
	}
	s.giveUp(j, c.Task.Slot, c.Reason, c.Again, c.Status)
	return Result{}
}

// giveUp ends the open attempt of a slot without its worker. A cancelled job gets no new attempt.
func (s *State) giveUp(j *JobRecord, n int, why taskstate.Reason, again bool, end *taskstate.Status) {
	c, ch := j.slots.at(n)
	if again && !j.cancelled {
		j.shut(c, ch)
		j.remember(n, c, s.stamp, why)
		*c = cell{attempt: max(c.attempt+1, j.first), form: formPending}
		j.pending.put(n, int(c.attempt))
		j.counts.Pending++
		return
	}
	st := taskstate.Status{State: taskstate.Orphaned, At: s.stamp, Exit: taskstate.NoExit, Reason: why}
	switch {
	case !again && end != nil && isEnd(end.State):
		st = *end
	case again: // it would have run again, had the job not been cancelled
		st.State, st.Reason, st.Message = taskstate.Shutdown, taskstate.ReasonCancelled, j.reason
	}
	j.end(c, ch, &st)
	s.close(j)
}

// giveUpAll gives up every open task of a peer: each slot waits for another attempt, or ends here if its job must not run twice.
func (s *State) giveUpAll(peer taskstate.PeerID, why taskstate.Reason) {
	for _, j := range s.order {
		for r := range j.openOf(peer) {
			s.giveUp(j, r.Slot, why, !j.job.Unreachable.Wait, nil)
		}
	}
}

// close ends the job if its last slot has its end. It happens once.
func (s *State) close(j *JobRecord) {
	if j.over || j.counts.Pending+j.counts.Open > 0 {
		return
	}
	j.over, j.ended = true, s.stamp
	j.pending = nil
	j.weight = j.weigh()
	s.finished = append(s.finished, j)
	s.ending = append(s.ending, j.job.ID)
	s.kept += j.weight
}

// weigh estimates the bytes a finished job occupies.
func (j *JobRecord) weigh() int {
	const cellBytes, stringBytes, pastBytes = 40, 16, 64
	w := 512 + j.slots.touched()*cellBytes
	for _, x := range j.job.Each {
		w += stringBytes + len(x)
	}
	if p := j.job.Run.Process; p != nil {
		w += len(p.Script)
		for _, x := range p.Command {
			w += stringBytes + len(x)
		}
		for k, v := range p.Env {
			w += 2*stringBytes + len(k) + len(v)
		}
	}
	for _, list := range j.past {
		w += pastBytes * (1 + len(list))
	}
	for _, f := range j.forms.list {
		w += 128 + len(f.Reason) + len(f.Message)
	}
	return w
}

// touched is how many cells exist.
func (t *slotTable) touched() int {
	n := 0
	for i := range t.chunks {
		n += len(t.chunks[i].cells)
	}
	return n
}
