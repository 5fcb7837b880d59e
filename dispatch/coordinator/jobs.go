package coordinator

import (
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
	amends    time.Time   // when the first of the peers on which too much failed may have it again
}

// of finds a job that is not over.
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
func (l *pendingGroup) takesTurn() bool { return takesTurn(l.body) }

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

// pending counts the slots nobody has, those under way excluded.
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
