package coordinator

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"covey/dispatch/coordinator/clock"
	"covey/dispatch/ledger"
	"covey/taskstate"
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
}

func (js *jobs) of(id taskstate.JobID) *jobState { return js.all[id] }

// jobState is a job that is not over, as the coordinator drives it.
type jobState struct {
	id        taskstate.JobID
	job       *taskstate.Job // as it is wanted now; of a lasting job another one takes its place with an update
	index     uint64         // ledger index of acceptance: its age
	cancelled bool
	blocked   bool // waits for other jobs

	groups   []*pendingGroup // what waits, by what it needs: one for a batch job
	later    laterQueue
	first    int          // see ledger.JobRecord.FirstAttempt
	inflight []assigning  // proposed, not applied
	early    map[int]bool // slots of inflight that have got their end meanwhile: see appliedLate
	open     int          // assigned by the ledger and not settled
	live     int          // proposed or assigned, and not known to have ended: what Parallel caps

	delayed      bool // until delayedUntil nothing more of it starts: its Delay
	delayedUntil time.Time
	leaving      map[int]leaving // open slots whose worker is to stop them, and not because the job was cancelled
	faults       faults
	lost         lostOutputs
	lasting      *lasting // of a service or global job
	where        *rules   // see placing

	waited  []Spell // the newest times some of it waited; see noteWaiting
	waiting bool    // the last of them goes on

	size map[int]int // estimated bytes of each version without Each
}

// assigning is a run of slots in an Assign under way.
type assigning struct {
	peer taskstate.PeerID
	body *taskstate.Job
	ledger.Slots
}

// pendingGroup is the slots of a job that wait and need the same: all of a batch job's, those of
// one version (and one peer) of a lasting one.
type pendingGroup struct {
	job    *jobState
	body   *taskstate.Job
	pin    taskstate.PeerID // the only peer they may go to; "" = any
	again  slotQueue        // had attempts before: these go first, so that they never wait behind a million fresh ones
	fresh  slotQueue
	queued bool // stands in its class's line
}

func (l *pendingGroup) n() int { return l.again.n + l.fresh.n }

// pop removes n slots that wait, as runs.
func (l *pendingGroup) pop(n int) []ledger.Slots {
	var out []ledger.Slots
	out, n = l.again.pop(out, n)
	out, _ = l.fresh.pop(out, n)
	return out
}

// mayStart is how many more tasks of the group there may be at once.
func (l *pendingGroup) mayStart() int {
	j := l.job
	switch {
	case j.cancelled || j.blocked || j.delayed:
		return 0
	}
	n := l.n()
	if j.job.Delay > 0 {
		n = min(n, 1)
	}
	if j.job.Parallel <= 0 {
		return n
	}
	return min(n, max(0, j.job.Parallel-j.live))
}

// takesTurn tells whether a task that needs nothing waits for its turn on a worker all the same:
// work that must not run twice is marked as begun only when it is.
func takesTurn(j *taskstate.Job) bool {
	return j.Resources == (taskstate.Resources{}) && j.Unreachable.Wait
}

// group finds the group of a version and a peer, or begins it.
func (j *jobState) group(version int, pin taskstate.PeerID) *pendingGroup {
	body := j.body(version)
	for _, l := range j.groups {
		if l.body == body && l.pin == pin {
			return l
		}
	}
	l := &pendingGroup{job: j, body: body, pin: pin}
	j.groups = append(j.groups, l)
	return l
}

// tidyGroups forgets groups that are empty, as long as there are several.
func (j *jobState) tidyGroups() {
	if len(j.groups) > 1 {
		j.groups = slices.DeleteFunc(j.groups, func(l *pendingGroup) bool { return l.n() == 0 && !l.queued })
	}
}

// body is the job as a version of it says; 0 for jobs without versions.
func (j *jobState) body(version int) *taskstate.Job {
	if j.lasting != nil {
		if b := j.lasting.versions[version]; b != nil {
			return b
		}
	}
	return j.job
}

func (j *jobState) pending() int {
	n := len(j.later)
	for _, l := range j.groups {
		n += l.n()
	}
	return n
}

// over tells whether every slot has its end, and none can get another attempt.
func (j *jobState) over() bool {
	if j.open != 0 || len(j.inflight) != 0 || j.pending() != 0 {
		return false
	}
	if j.cancelled || j.lasting == nil {
		return j.cancelled || j.job.Schedule == nil
	}
	return j.lasting.finished(j.job.Count)
}

// unwait takes a slot out of those that wait, and tells whether it was there.
func (j *jobState) unwait(slot int) bool {
	if j.later.remove(slot) {
		return true
	}
	for _, l := range j.groups {
		if l.again.remove(slot) || l.fresh.remove(slot) {
			return true
		}
	}
	return false
}

// endEarly notes that a slot has got its end while it is under way: its assignment will be refused.
func (j *jobState) endEarly(slot int) {
	if j.early == nil {
		j.early = map[int]bool{}
	}
	j.early[slot] = true
}

// underWay tells whether a slot is in an Assign that is not decided yet.
func (j *jobState) underWay(slot int) bool {
	return slices.ContainsFunc(j.inflight, func(a assigning) bool { return slot >= a.First && slot < a.First+a.N })
}

// mayStart is how many more tasks the job may have at once.
func (j *jobState) mayStart() int {
	n := 0
	for _, l := range j.groups {
		n = max(n, l.mayStart())
	}
	return n
}

// slotQueue is a line of slots, kept as runs.
type slotQueue struct {
	runs []ledger.Slots
	n    int
}

func (q *slotQueue) add(r ledger.Slots) {
	q.n += r.N
	if k := len(q.runs) - 1; k >= 0 && q.runs[k].Attempt == r.Attempt && q.runs[k].First+q.runs[k].N == r.First {
		q.runs[k].N += r.N
		return
	}
	q.runs = append(q.runs, r)
}

// pop removes up to n slots from the front and tells how many were missing.
func (q *slotQueue) pop(out []ledger.Slots, n int) ([]ledger.Slots, int) {
	for n > 0 && q.n > 0 {
		r := &q.runs[0]
		k := min(n, r.N)
		out = append(out, ledger.Slots{First: r.First, N: k, Attempt: r.Attempt})
		r.First, r.N = r.First+k, r.N-k
		q.n, n = q.n-k, n-k
		if r.N == 0 {
			if q.runs = q.runs[1:]; len(q.runs) == 0 {
				q.runs = nil
			}
		}
	}
	return out, n
}

// lastingByAge lists the services and global jobs.
func (js *jobs) lastingByAge() []*jobState { return slices.Clone(js.lasting) }

// waiting lists the jobs of which something waits or runs, the newest first.
func (js *jobs) waiting() (out []*jobState) {
	for _, j := range js.all {
		if j.pending() > 0 || j.live > 0 {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *jobState) int { return cmp.Compare(b.index, a.index) })
	return out
}

// addJob begins to drive a job. Whoever calls fills its slots in and then enqueues it.
func (js *jobs) addJob(job *taskstate.Job, index uint64) *jobState {
	j := &jobState{id: job.ID, job: job, index: index}
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
		j.endEarly(slot)
	}
	return false
}

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
