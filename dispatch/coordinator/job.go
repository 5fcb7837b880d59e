package coordinator

import (
	"cmp"
	"crypto/sha256"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/owners"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

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
	owners       owners.Job // which peers' owners do not let it in
	preparing    int        // its tasks that wait for their inputs, which others pass
	lost         lostOutputs
	lasting      *lasting     // of a service or global job
	where        *rules       // see placing
	near         *inputPlaces // see placer.whereInputsAre

	waited  []WaitPeriod // the newest times some of it waited; see noteWaiting
	waiting bool         // the last of them goes on

	size map[int]int         // estimated bytes of each version without Each
	tree *taskstate.ItemTree // of Each, if it was signed and asked for
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

// placing reads the rules of the job as it is wanted now.
func (j *jobState) placing() *rules {
	if j.where == nil || j.where.of != j.job {
		r := &rules{of: j.job}
		var err, err2 error
		r.constraints, err = constraint.ParseAll(j.job.Constraints)
		r.over, err2 = constraint.ParseOver(j.job.Over)
		r.wrong = err != nil || err2 != nil
		j.where = r
	}
	return j.where
}

// landed takes an assignment out of those under way and tells whether it was there.
func (j *jobState) landed(a *ledger.Assign) bool {
	for _, run := range a.Slots {
		i := slices.IndexFunc(j.inflight, func(x assigning) bool { return x.peer == a.Peer && x.Slots == run })
		if i < 0 {
			return false
		}
		last := len(j.inflight) - 1
		j.inflight[i] = j.inflight[last]
		j.inflight = j.inflight[:last]
	}
	return true
}

// bytes estimates the job's size on the wire without Each; measured once.
func (j *jobState) bytes(body *taskstate.Job) int {
	n, ok := j.size[body.Version]
	if !ok {
		job := *body
		job.Each = nil
		b, _ := wire.Marshal(job)
		if n = len(b) + 1; j.size == nil {
			j.size = map[int]int{}
		}
		j.size[body.Version] = n
	}
	return n
}

// itemTree proves items to those who get only some; nil for a job that has none, or is not signed.
func (j *jobState) itemTree(body *taskstate.Job) *taskstate.ItemTree {
	if body.Order == nil || len(body.Each) == 0 {
		return nil
	}
	if j.tree == nil { // an order may be renewed, and what its items are never changes
		j.tree = taskstate.NewItemTree(body.Each)
	}
	return j.tree
}

// proofBytes is how long the proof of a run of items may be.
func (j *jobState) proofBytes(body *taskstate.Job) int {
	if body.Order == nil {
		return 0
	}
	return 2 * bits.Len(uint(len(body.Each))) * (sha256.Size + 2)
}

func (j *jobState) leave(slot int, l leaving) {
	if j.leaving == nil {
		j.leaving = map[int]leaving{}
	}
	j.leaving[slot] = l
}

func (j *jobState) leaves(slot int) bool { _, ok := j.leaving[slot]; return ok }

// noteWaiting remembers why a job's slots could not be placed now; "" means that all could.
func (j *jobState) noteWaiting(reason string, now time.Time) {
	k := len(j.waited) - 1
	if k >= 0 && j.waiting {
		j.waited[k].To = now
	}
	j.waiting = reason != ""
	if !j.waiting || k >= 0 && j.waited[k].Reason == reason && j.waited[k].To.Equal(now) {
		return
	}
	if len(j.waited) >= keepSpells {
		j.waited = slices.Delete(j.waited, 0, len(j.waited)-keepSpells+1)
	}
	j.waited = append(j.waited, WaitPeriod{Reason: reason, From: now, To: now})
}

// rules are a job's words about where its tasks may go, read once.
type rules struct {
	of          *taskstate.Job
	constraints []constraint.Constraint
	over        constraint.Key
	wrong       bool // they cannot be read, though they could when the job was accepted: it goes nowhere
	matcher     placement.Matcher
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

func (l *pendingGroup) needs() needs {
	b := l.body
	n := needs{resources: b.Resources, pin: l.pin, priority: l.job.job.Priority}
	if w := l.job.job; len(w.Constraints) > 0 || w.Strategy != "" || w.Over != "" {
		n.where = strings.Join(append([]string{string(w.Strategy), w.Over}, w.Constraints...), "\n")
	}
	return n
}

// takesTurn tells whether a task that needs nothing waits for its turn on a worker all the same:
// work that must not run twice is marked as begun only when it is.
func takesTurn(j *taskstate.Job) bool {
	return j.Resources == (taskstate.Resources{}) && j.Unreachable.Wait
}

// slotQueue is a line of slots, kept as runs.
type slotQueue struct {
	runs []ledger.Slots
	n    int
}

func (q *slotQueue) add(r ledger.Slots) {
	q.n += r.N
	q.runs = ledger.AppendSlots(q.runs, r)
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

// unpop puts slots back to the front.
func (q *slotQueue) unpop(runs []ledger.Slots) {
	for _, r := range runs {
		q.n += r.N
	}
	q.runs = append(slices.Clip(runs), q.runs...)
}

func (q *slotQueue) remove(slot int) bool {
	for i, r := range q.runs {
		if slot < r.First || slot >= r.First+r.N {
			continue
		}
		var rest []ledger.Slots
		if n := slot - r.First; n > 0 {
			rest = append(rest, ledger.Slots{First: r.First, N: n, Attempt: r.Attempt})
		}
		if n := r.First + r.N - 1 - slot; n > 0 {
			rest = append(rest, ledger.Slots{First: slot + 1, N: n, Attempt: r.Attempt})
		}
		q.runs = slices.Replace(q.runs, i, i+1, rest...)
		q.n--
		return true
	}
	return false
}

// laterQueue is slots that wait for their time, the earliest first.
type laterQueue []laterSlot

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

type laterSlot struct {
	ledger.Slots
	version int
	at      int64 // ledger stamp
}

// WaitPeriod is a time in which some of a job's slots waited for one and the same reason.
type WaitPeriod struct {
	Reason   string // for people, with the number of peers for each cause
	From, To time.Time
	Lasts    bool // they still wait for it; To is when this was last seen
}

// needs is what decides where a task can go: where one finds no room, no other that needs the same
// does.
type needs struct {
	resources taskstate.Resources
	where     string // constraints, and how to choose among those that fit
	pin       taskstate.PeerID
	priority  int
}

// keepSpells is how many spells of waiting of one job are remembered: the newest.
const keepSpells = 5

// keepEnded is of how many jobs that are over the spells of waiting are remembered: the newest.
const keepEnded = 500
