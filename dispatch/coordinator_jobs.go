package dispatch

import (
	"covey/dispatch/ledger"
	"covey/taskstate"
)

// jobState is a job that is not over, as the coordinator drives it.
type jobState struct {
	id        taskstate.JobID
	job       *taskstate.Job // as submitted; never changes
	index     uint64         // ledger index of acceptance: its age
	cancelled bool

	again    slotQueue // given up before: these go first, so that they never wait behind a million fresh ones
	fresh    slotQueue
	first    int          // see ledger.JobRecord.FirstAttempt
	inflight []assigning  // proposed, not applied
	early    map[int]bool // slots of inflight that have got their end meanwhile: see appliedLate
	open     int          // assigned by the ledger and not settled
	live     int          // proposed or assigned, and not known to have ended: what Parallel caps

	waited  []Spell // the newest times some of it waited; see noteWaiting
	waiting bool    // the last of them goes on

	queued bool // stands in its class's line
	size   int  // estimated bytes of the job without Each, 0 = not estimated yet
}

// assigning is a run of slots in an Assign under way.
type assigning struct {
	peer taskstate.PeerID
	ledger.Slots
}

// pending counts the slots nobody has, those under way excluded.
func (j *jobState) pending() int { return j.again.n + j.fresh.n }

// over tells whether every slot has its end.
func (j *jobState) over() bool { return j.open == 0 && j.pending() == 0 && len(j.inflight) == 0 }

// take removes n slots that wait, as runs.
func (j *jobState) take(n int) []ledger.Slots {
	var out []ledger.Slots
	out, n = j.again.take(out, n)
	out, _ = j.fresh.take(out, n)
	return out
}

// mayStart is how many more tasks the job may have at once.
func (j *jobState) mayStart() int {
	if j.job.Parallel <= 0 {
		return j.pending()
	}
	return min(j.pending(), max(0, j.job.Parallel-j.live))
}

// takesTurn tells whether a task that needs nothing waits for its turn on a worker all the same: work that must not run twice is
// marked as begun only when it is.
func (j *jobState) takesTurn() bool {
	return j.job.Resources == (taskstate.Resources{}) && j.job.Unreachable.Wait
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

// take removes up to n slots from the front and tells how many were missing.
func (q *slotQueue) take(out []ledger.Slots, n int) ([]ledger.Slots, int) {
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

func (q *slotQueue) clear() { *q = slotQueue{} }

// class is the jobs whose tasks need the same: where one of them finds no room, none does.
type class struct {
	need taskstate.Resources
	line []*jobState // who is next; jobs that have nothing to place any more are dropped when their turn comes
}

// enqueue puts a job into its class's line, if it has something to place and does not stand there already.
func (c *Coordinator) enqueue(j *jobState) {
	if j.queued || j.cancelled || j.mayStart() == 0 {
		return
	}
	k := c.classFor(j.job.Resources)
	j.queued = true
	k.line = append(k.line, j)
	c.dirty = true
}

func (c *Coordinator) classFor(need taskstate.Resources) *class {
	k := c.classOf[need]
	if k == nil {
		k = &class{need: need}
		c.classOf[need] = k
		c.classes = append(c.classes, k)
	}
	return k
}

// addJob begins to drive a job. Whoever calls fills its slots in and then enqueues it.
func (c *Coordinator) addJob(job *taskstate.Job, index uint64) *jobState {
	j := &jobState{id: job.ID, job: job, index: index}
	c.jobs[job.ID] = j
	return j
}

// endJob forgets a job that is over, here and in every session that was sent it.
func (c *Coordinator) endJob(j *jobState) {
	if !j.over() {
		return
	}
	delete(c.jobs, j.id)
	for _, p := range c.order {
		delete(p.holds, j.id)
		if p.session != nil {
			delete(p.session.jobs, j.id)
		}
	}
}
