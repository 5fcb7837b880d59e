package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// conclude makes an end that was heard of the end of its open slot, or the beginning of the slot's
// next attempt: if it was leaving for another one, or if the restart policy says so.
func (j *JobRecord) conclude(c *cell, ch *chunk, st *taskstate.Status, t applying) {
	n := st.Task.Slot
	if j.job.Restart == nil && len(j.slots.extras) == 0 {
		j.slots.settle(n, c, ch, st)
		return
	}
	x := j.slots.extrasOf(n)
	switch {
	case j.cancelled || x.Retired:
		j.slots.finish(n, c, ch, st)
	case st.Reason == taskstate.ReasonOutputLost && j.job.Unreachable.Wait: // nobody knows whether it did what it should
		j.slots.finish(n, c, ch, st)
	case x.Leaving:
		j.another(n, c, ch, x.Reason, st, t)
	default:
		ran := t.stamp - c.assigned
		if st.State == taskstate.Rejected {
			ran = 0
		}
		v := j.job.Restart.Next(x.History, st.State, ran, t.stamp)
		if !v.Again {
			j.slots.finish(n, c, ch, st)
			return
		}
		x.History, x.NotBefore = v.History, v.NotBefore
		j.slots.putExtras(n, x)
		j.another(n, c, ch, taskstate.ReasonRestart, st, t)
	}
}

// another ends the open attempt of a slot and has the slot wait for the next one. end is nil if
// nobody heard of one.
func (j *JobRecord) another(n int, c *cell, ch *chunk, why taskstate.Reason, end *taskstate.Status, t applying) {
	x := j.slots.extrasOf(n)
	j.slots.closeOpen(c, ch)
	j.past.remember(n, c, formerAttempt{GivenUp: t.stamp, Reason: why, Version: uint32(j.slots.version(x)), End: endOf(end)})
	if x.Leaving {
		if x.Next != uint32(j.slots.version(x)) {
			x.History = taskstate.History{}
		}
		x.Version, x.Next, x.Leaving, x.Reason = x.Next, 0, false, ""
		j.slots.putExtras(n, x)
	}
	j.slots.pending.put(n, j.next(n, c, j.slots.extrasOf(n), t))
}

// next moves a slot on to the attempt after the one in its cell, and after all it has left behind:
// one of those may have overtaken others. The caller puts it among those that wait.
func (j *JobRecord) next(n int, c *cell, x slotExtras, t applying) (attempt int) {
	last := max(uint32(j.slots.attempt(*c)), j.past.newest(n))
	*c = cell{attempt: max(last+1, j.slots.first), kind: kindPending}
	j.slots.saved.drop(n)
	j.slots.counts.Pending++
	t.effects.waits(j, n, int(c.attempt), x)
	return int(c.attempt)
}

func (b *jobTable) supersede(c *Supersede) Result {
	j, ok := b.jobs[c.Task.Job]
	if !ok || c.Task.Slot < 1 || c.Task.Slot > j.slots.count {
		return Result{Refused: CodeUnknown}
	}
	if _, _, _, st := j.assigned(c.Task); st == taskstate.Retired {
		return Result{Refused: CodeOver}
	} else if st != taskstate.Known {
		return Result{Refused: CodeUnknown}
	}
	b.giveUp(j, c.Task.Slot, c.Reason, c.Again, c.Status)
	return Result{}
}

// giveUp ends the open attempt of a slot without its worker. A slot of a cancelled job, or one that
// was retired, gets no new attempt; one that was leaving for another attempt does, unless its job
// must not run twice.
func (b *jobTable) giveUp(j *JobRecord, n int, why taskstate.Reason, again bool, end *taskstate.Status) {
	c, ch := j.slots.at(n)
	x := j.slots.extrasOf(n)
	if end != nil && (again || !isEnd(end.State)) {
		end = nil
	}
	if !j.cancelled && !x.Retired && (again || x.Leaving && !j.job.Unreachable.Wait) {
		j.another(n, c, ch, why, end, b.turn())
		return
	}
	st := taskstate.Status{State: taskstate.Orphaned, At: b.head.stamp, Exit: taskstate.NoExit, Reason: why}
	switch {
	case end != nil:
		st = *end
	case again && j.cancelled: // it would have run again, had the job not been cancelled
		st.State, st.Reason, st.Message = taskstate.Shutdown, j.Why(), j.reason
	case again:
		st.State, st.Reason = taskstate.Shutdown, cmp.Or(x.Reason, taskstate.ReasonRetired)
	}
	j.slots.finish(n, c, ch, &st)
	b.close(j)
}

// giveUpAll gives up every open task of a peer: each slot waits for another attempt, or ends here
// if its job must not run twice.
func (b *jobTable) giveUpAll(peer taskstate.PeerID, why taskstate.Reason) {
	for _, j := range b.order {
		for n := range j.slots.openOf(peer) {
			b.giveUp(j, n, why, !j.job.Unreachable.Wait, nil)
		}
	}
}

// close ends the job if it is done, and cuts it short if too much of it failed. What waits for it
// goes on, or is cut, too.
func (b *jobTable) close(j *JobRecord) {
	if j.over {
		return
	}
	if !j.done() {
		if most, failed := j.job.MaxFails, j.slots.counts.Failed+j.slots.counts.Rejected-j.forgiven; most > 0 && failed >= most && !j.cancelled && !j.Lasts() {
			b.cancelAfter(j, taskstate.ReasonMaxFails, fmt.Sprintf("%d task%s failed (max_fails: %d)", failed, plural(failed), most))
		}
		return
	}
	j.over, j.ended = true, b.head.stamp
	j.slots.pending = nil
	j.slots.tidyKinds()
	j.slots.saved.tidy()
	j.weight = j.estimateBytes()
	b.finished.add(j)
	b.ending = append(b.ending, j.job.ID)
	b.names.free(j)
	b.waiters.remove(j)
	b.proceed(j)
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// done tells whether nothing of the job is to run any more. A lasting job is done when it was
// cancelled, or when as many slots as are wanted have ended for good and no rollout is under way
// that could change that.
func (j *JobRecord) done() bool {
	c := j.slots.counts
	switch {
	case j.Scheduled():
		return j.cancelled
	case c.Pending+c.Open > 0:
		return false
	case j.long == nil || j.cancelled:
		return true
	}
	ended := j.slots.count - c.Retired
	return ended > 0 && ended >= j.job.Count && !j.long.rollout.State.Active()
}

// follow puts a job that is new, or goes on, behind those it comes after: it waits for the ones
// that go on, and is cut at once if one has ended otherwise than complete.
func (b *jobTable) follow(j *JobRecord) {
	for _, id := range j.job.After {
		before := b.jobs[id]
		switch {
		case before == nil: // forgotten since j was accepted
		case before.over && before.State() != taskstate.Complete:
			b.cancelAfter(j, taskstate.ReasonAfter, before.endSummary())
			return
		case before.over && b.lacks(j, before) != 0:
			b.cancelAfter(j, taskstate.ReasonAfter, before.lackSummary(b.lacks(j, before)))
			return
		case !before.over && !slices.Contains(j.blocked, id):
			j.blocked = append(j.blocked, id)
			b.waiters[id] = append(b.waiters[id], j)
		}
	}
}

// proceed tells those who wait for a job that it is over.
func (b *jobTable) proceed(j *JobRecord) {
	id := j.job.ID
	complete := j.State() == taskstate.Complete
	for _, w := range b.waiters.pop(id) {
		w.blocked = slices.DeleteFunc(w.blocked, func(x taskstate.JobID) bool { return x == id })
		switch {
		case w.cancelled:
		case !complete:
			b.cancelAfter(w, taskstate.ReasonAfter, j.endSummary())
		case b.lacks(w, j) != 0:
			b.cancelAfter(w, taskstate.ReasonAfter, j.lackSummary(b.lacks(w, j)))
		case len(w.blocked) == 0:
			w.blocked = nil
			b.effects.released = append(b.effects.released, w.job.ID)
		}
	}
}

// handsOnWhole is the dialect from which on a job gets the files of another one only if every task
// of that is complete. Replicas of versions before decide otherwise.
const handsOnWhole = 2

// followsAgain is the dialect from which on a job that is retried waits for those it comes after,
// and takes along the jobs that were cut because of it. Replicas of versions before decide
// otherwise.
const followsAgain = 2

// failedBefore is a job that j comes after and that ended otherwise than j needs; nil: there is
// none.
func (b *jobTable) failedBefore(j *JobRecord) *JobRecord {
	for _, id := range j.job.After {
		if x := b.jobs[id]; x != nil && x.over && (x.State() != taskstate.Complete || b.lacks(j, x) != 0) {
			return x
		}
	}
	return nil
}

// BegunAfter lists the jobs that come after a job and have begun, the newest first.
func (s *State) BegunAfter(id taskstate.JobID) (begun []taskstate.JobID) {
	for j := range s.Jobs() {
		if c := j.slots.counts; slices.Contains(j.job.After, id) && c.Open+c.Complete+c.Failed > 0 {
			begun = append(begun, j.job.ID)
		}
	}
	return begun
}

// takeAlong has the batch jobs that were cut because of a job wait for it again as that goes on,
// and those that were cut because of these.
func (b *jobTable) takeAlong(j *JobRecord, w *Warrants) {
	back := map[taskstate.JobID]bool{j.job.ID: true}
	for _, x := range b.order { // a job is accepted later than those it comes after
		if !slices.ContainsFunc(x.job.After, func(id taskstate.JobID) bool { return back[id] }) || !b.waitsAgain(x, w) {
			continue
		}
		b.lift(x)
		b.follow(x)
		b.reopen(x)
		back[x.job.ID] = true
		b.effects.along = append(b.effects.along, x.Outline())
	}
}

// waitsAgain reports whether a job that was cut because of another one waits for it again once that
// is retried. Its order must still hold. While another job that it comes after has failed, or is
// forgotten, it stays cut: nothing says that it would be complete.
func (b *jobTable) waitsAgain(x *JobRecord, w *Warrants) bool {
	o := x.job.Order
	return x.over && x.why == taskstate.ReasonAfter && !x.Lasts() && !x.Scheduled() &&
		!w.void(x.job) && (o == nil || b.head.stamp <= o.Until) &&
		!slices.ContainsFunc(x.job.After, func(id taskstate.JobID) bool { return b.jobs[id] == nil }) && b.failedBefore(x) == nil
}

// lacks is the first task of a job that is over whose files another job takes and that are not
// whole; 0: there is none. A job may be complete without tasks that were cancelled one by one.
func (b *jobTable) lacks(j, before *JobRecord) (slot int) {
	if b.roster.speaks() < handsOnWhole || before.Lasts() || !slices.Contains(j.job.Needs(), before.job.ID) {
		return 0
	}
	return before.FirstIncomplete()
}

// FirstIncomplete is the lowest slot of the job that has no complete task; 0: all have.
func (j *JobRecord) FirstIncomplete() (slot int) {
	if j.slots.counts.Complete == j.slots.count {
		return 0
	}
	for n := 1; n <= j.slots.count; n++ {
		if r := j.Slot(n); r.Final == nil || r.Final.State != taskstate.Complete {
			return n
		}
	}
	return 0
}

// lackSummary says which task of the job left no whole files, for the jobs that take them.
func (j *JobRecord) lackSummary(slot int) string {
	how := "failed"
	if r := j.Slot(slot); r.Final != nil && r.Final.State == taskstate.Shutdown {
		how = "was cancelled"
	}
	return fmt.Sprintf("from: task %d of job %s %s and left no whole files; submit that job again", slot, j.called(), how)
}

// called is the job's name and id, for people.
func (j *JobRecord) called() string {
	if j.job.Name == "" {
		return string(j.job.ID)
	}
	return j.job.Name + " (" + string(j.job.ID) + ")"
}

// cancelAfter cancels a job as a consequence of something else.
func (b *jobTable) cancelAfter(j *JobRecord, why taskstate.Reason, message string) {
	b.effects.cut = append(b.effects.cut, j.job.ID)
	b.stop(j, why, message)
}

// endSummary says how the job ended, for the jobs that waited for it.
func (j *JobRecord) endSummary() string {
	how := "failed"
	switch {
	case j.State() != taskstate.Shutdown:
	case j.cancelled:
		how = "was cancelled"
	default:
		how = "was stopped"
	}
	return "after: job " + j.called() + " " + how
}

func (b *jobTable) pin(c *Pin) Result {
	j, ok := b.jobs[c.Job]
	pins := 0
	for _, x := range b.order {
		if x.pinned {
			pins++
		}
	}
	switch {
	case !ok:
		return Result{Refused: CodeUnknown}
	case j.pinned == !c.Not:
		return Result{Existed: true}
	case !c.Not && pins >= MaxPins:
		return Result{Refused: CodeInvalid}
	}
	j.pinned = !c.Not
	return Result{}
}

// forget drops the finished jobs that are too many, too old or too heavy, the ones that ended first
// first. Those that are pinned go last, and only because all together are too heavy; one whose
// files a job takes that is not over stays.
func (b *jobTable) forget() {
	for {
		j := b.finished.drop(b.head.settings, b.head.stamp)
		if j == nil {
			return
		}
		delete(b.jobs, j.job.ID)
		i := slices.Index(b.order, j)
		b.order = append(b.order[:i], b.order[i+1:]...)
	}
}

// stop cancels a job: why is ReasonNone if somebody asked.
func (b *jobTable) stop(j *JobRecord, why taskstate.Reason, message string) {
	j.cancelled, j.why, j.reason, j.at = true, why, message, b.head.stamp
	j.slots.counts.Shutdown += j.slots.counts.Pending // no cell is made for them: their end follows from the cancel
	j.slots.counts.Pending = 0
	j.slots.pending = nil
	for n, x := range j.slots.extras { // nothing is to start, or to make room for another attempt
		if !x.Retired {
			j.slots.putExtras(int(n), slotExtras{Version: x.Version, Pin: x.Pin})
		}
	}
	b.names.free(j)
	b.waiters.remove(j)
	b.close(j)
}
