package coordinator

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// jobs are the jobs that are not over: what of them waits, and for what besides room.
type jobs struct {
	clock  *clock.Clock
	agenda *agenda
	outbox *outbox
	peers  *peers

	all       map[taskstate.JobID]*jobState
	lasting   []*jobState // services and global jobs, by age
	backlog   backlog     // what waits to be placed
	schedules schedules
	delayed   []*jobState // whose delay lasts
	lookAgain time.Time   // when the first of the peers on which too much failed may have it again
	past      pastWaits
}

// pastWaits are the spells of waiting of jobs that are over, of the newest keepEnded: somebody who
// cancels what waits may ask afterwards why it did.
type pastWaits struct {
	of    map[taskstate.JobID][]WaitPeriod
	order []taskstate.JobID
}

func (p *pastWaits) put(id taskstate.JobID, spells []WaitPeriod) {
	if p.of == nil {
		p.of = map[taskstate.JobID][]WaitPeriod{}
	}
	if len(p.order) >= keepEnded {
		delete(p.of, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
	p.of[id], p.order = spells, append(p.order, id)
}

// take forgets the spells of a job and gives them: it goes on.
func (p *pastWaits) take(id taskstate.JobID) []WaitPeriod {
	spells, ok := p.of[id]
	if ok {
		delete(p.of, id)
		p.order = slices.DeleteFunc(p.order, func(x taskstate.JobID) bool { return x == id })
	}
	return spells
}

func (js *jobs) of(id taskstate.JobID) *jobState { return js.all[id] }

// some lists the jobs that pick accepts, the oldest first.
func (js *jobs) some(pick func(*jobState) bool) (out []*jobState) {
	for _, j := range js.all {
		if pick(j) {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *jobState) int { return cmp.Compare(a.index, b.index) })
	return out
}

// addJob begins to drive a job. The caller fills its slots in and then enqueues it.
func (js *jobs) addJob(job *taskstate.Job, index uint64) *jobState {
	j := &jobState{id: job.ID, job: job, index: index, waited: js.past.take(job.ID)}
	if job.Type.Lasts() {
		j.lasting = newLasting(j)
		js.lasting = append(js.lasting, j)
	}
	js.all[job.ID] = j
	return j
}

// endJob forgets a job that is over, here and in every session that was sent it.
func (js *jobs) endJob(j *jobState) {
	if !j.over() {
		return
	}
	if j.noteWaiting("", js.clock.Now()); len(j.waited) > 0 {
		js.past.put(j.id, j.waited)
	}
	delete(js.all, j.id)
	js.lasting = slices.DeleteFunc(js.lasting, func(x *jobState) bool { return x == j })
	js.delayed = slices.DeleteFunc(js.delayed, func(x *jobState) bool { return x == j })
	js.schedules.forget(j)
	for _, p := range js.peers.list() {
		delete(p.holds, j.id)
		if p.session != nil {
			p.session.forget(j)
		}
	}
}

// waits mirrors slots that wait for an attempt since an entry was applied. Renewed tells that they
// may have waited before.
func (js *jobs) waits(a ledger.Again, renewed bool) error {
	j := js.of(a.Job)
	switch {
	case j == nil:
		return errors.New("a job that was over goes on: " + string(a.Job))
	case j.cancelled:
		j.cancelled = false // somebody wants it after all
	}
	for n := range a.Slots.All() {
		j.lasting.waits(n, a.Slots.Attempt, a.Version)
		if renewed && j.waitedBefore(n, a.Version, a.Slots.Attempt) || j.lasting == nil && !renewed && a.NotBefore <= js.clock.Stamp() {
			continue
		}
		js.waitsOne(j, ledger.Slots{First: n, N: 1, Attempt: a.Slots.Attempt}, a)
	}
	if j.lasting == nil && !renewed && a.NotBefore <= js.clock.Stamp() {
		j.wait(a.Slots, a.Version, "") // the usual case, in one piece
	}
	return nil
}

func (js *jobs) waitsOne(j *jobState, slot ledger.Slots, a ledger.Again) {
	if a.NotBefore > js.clock.Stamp() {
		j.later.add(laterSlot{Slots: slot, version: a.Version, at: a.NotBefore})
		js.clock.WakeAt(js.clock.When(j.later[0].at))
		return
	}
	j.wait(slot, a.Version, j.lasting.pinOf(slot.First))
}

func (js *jobs) dueLater() {
	for _, j := range js.some(func(j *jobState) bool { return len(j.later) > 0 }) {
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

// A job with a delay is given to peers one task at a time, to where it starts at once, and then
// rests. So its starts are as far apart as it says, but for the time that an assignment is on its
// way.

// delay has a job that says so start nothing more for its delay.
func (js *jobs) delay(j *jobState) {
	if j.job.Delay <= 0 || j.job.Schedule != nil {
		return
	}
	if !j.delayed {
		js.delayed = append(js.delayed, j)
	}
	j.delayed, j.delayedUntil = true, js.clock.Now().Add(time.Duration(j.job.Delay)*time.Millisecond)
	js.clock.WakeAt(j.delayedUntil)
}

// stepDelayed lets go on what has rested for long enough.
func (js *jobs) stepDelayed() {
	js.delayed = slices.DeleteFunc(js.delayed, func(j *jobState) bool {
		if j.delayed = js.clock.Now().Before(j.delayedUntil); j.delayed {
			js.clock.WakeAt(j.delayedUntil)
		} else {
			js.enqueue(j)
		}
		return !j.delayed
	})
}

// enqueue has a job's groups wait to be placed.
func (js *jobs) enqueue(j *jobState) {
	for _, l := range j.groups {
		if js.backlog.add(l) {
			js.agenda.place()
		}
	}
}

// reclassify has a job's groups stand where its new spec says.
func (js *jobs) reclassify(j *jobState) {
	js.backlog.drop(j)
	js.enqueue(j)
}

// takeUp begins to drive a job that is under way, or goes on after it was over. Which of its slots
// wait, and who has others, comes after.
func (js *jobs) takeUp(o *ledger.Outline) *jobState {
	j := js.addJob(o.Job, o.Index) // Version is the ledger's
	j.first, j.blocked = o.First, o.Blocked
	if js.schedules.add(j, o.StartsFrom) {
		js.clock.WakeAt(js.clock.Now())
	}
	j.lasting.derive(o)
	return j
}

// schedules are the jobs that only start others.
type schedules struct {
	watched []*scheduled
	clocks  func() int64 // see CoreConfig
}

// add begins to watch the schedule of a job, if it has one, for starts after a moment. It tells
// whether it has.
func (ss *schedules) add(j *jobState, last int64) bool {
	if j.job.Schedule == nil || j.lasting != nil {
		return false
	}
	ss.watched = append(ss.watched, &scheduled{job: j, last: last})
	return true
}

// changed has a job start others as its new spec says, from now on: what the old one did not start
// is not made up for. It tells whether the job does start others.
func (ss *schedules) changed(j *jobState, now int64) (does bool) {
	for _, s := range ss.watched {
		if s.job == j {
			s.last, s.next, does = max(s.last, now), 0, true
		}
	}
	return does
}

// decided hears that a submission was decided, whichever way. If it is a run of a schedule, it is a
// job from now on, or will never be.
func (ss *schedules) decided(id taskstate.JobID) {
	for _, s := range ss.watched {
		if s.starts == id {
			s.starts = ""
		}
	}
}

func (ss *schedules) forget(j *jobState) {
	ss.watched = slices.DeleteFunc(ss.watched, func(s *scheduled) bool { return s.job == j })
}

// scheduled is a job that only starts others like it.
type scheduled struct {
	job    *jobState
	last   int64           // up to here every start was decided, or not wanted; see ledger.JobRecord.StartsFrom
	next   int64           // when to look again, 0 = now. All by the ledger's stamps.
	starts taskstate.JobID // its newest run, as long as that is being decided
}

func newLasting(j *jobState) *lasting {
	return &lasting{versions: map[int]*taskstate.Job{j.job.Version: j.job}, slots: map[int]*lastingSlot{}, stale: true}
}
