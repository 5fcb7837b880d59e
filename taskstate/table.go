package taskstate

import (
	"iter"
	"sync"
)

// LedgerView says what a ledger replica knows about a task.
type LedgerView uint8

// The standings.
const (
	Unknown LedgerView = iota // never heard of: news from ahead of this replica, or long forgotten
	Known                     // assigned, its end not decided yet
	Retired                   // settled or superseded: the ledger knows better than any status
)

// String names the standing.
func (s LedgerView) String() string {
	switch s {
	case Known:
		return "known"
	case Retired:
		return "retired"
	}
	return "unknown"
}

// Assignments is what a Table asks of a ledger replica: whom a task was given to, and how far the
// replica is. A Table asks under its lock: what answers never waits for who asks the Table.
type Assignments interface {
	// Assigned tells the only author a task's statuses may have. Peer, incarnation and index mean
	// nothing unless Known.
	Assigned(t TaskID) (peer PeerID, inc Incarnation, index uint64, st LedgerView)
	// Applied is the index of the last ledger entry the replica holds.
	Applied() uint64
}

// Table holds the newest status of every task that has one and whose end the ledger has not decided
// yet. It is safe for concurrent use.
type Table struct {
	mu     sync.Mutex
	ledger Assignments
	jobs   map[JobID]map[slotAttempt]Status
	size   int
	parked parking
}

type slotAttempt struct{ slot, attempt int }

// NewTable makes an empty Table. At most parkLimit statuses wait for their assignment; 0 means
// DefaultParkLimit.
func NewTable(a Assignments, parkLimit int) *Table {
	if parkLimit <= 0 {
		parkLimit = DefaultParkLimit
	}
	return &Table{ledger: a, jobs: map[JobID]map[slotAttempt]Status{}, parked: parking{limit: parkLimit, byAuthor: map[PeerID]*authorParking{}}}
}

// Merge takes a batch in and returns what was news: only that needs to travel on. A status whose
// task was not given to the batch's author and incarnation is refused, and so is one of a retired
// task; one whose assignment this replica has not applied yet is parked until Advance. refused
// counts the first two.
func (t *Table) Merge(b Batch) (news []Status, refused int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Read before the assignments are: if the replica moves on meanwhile, a status is parked that
	// need not be, and the Advance that follows every step of the replica takes it in. The other
	// way round it would be refused wrongly.
	applied := t.ledger.Applied()
	for i := range b.Statuses {
		switch t.apply(b.Author, b.Incarnation, &b.Statuses[i], applied) {
		case fresh:
			if news == nil {
				news = make([]Status, 0, len(b.Statuses)-i)
			}
			news = append(news, b.Statuses[i])
		case wrong:
			refused++
		case ahead:
			t.parked.put(b.Author, b.Incarnation, b.Statuses[i])
		}
	}
	return news, refused
}

type mergeResult uint8

const (
	stale mergeResult = iota // nothing new
	fresh
	wrong
	ahead
)

func (t *Table) apply(author PeerID, inc Incarnation, s *Status, applied uint64) mergeResult {
	peer, at, _, st := t.ledger.Assigned(s.Task)
	switch {
	case st == Unknown && s.Index > applied && s.Index-applied < maxAhead:
		return ahead
	case st != Known || peer != author || at != inc:
		return wrong
	}
	job := t.jobs[s.Task.Job]
	if job == nil {
		job = map[slotAttempt]Status{}
		t.jobs[s.Task.Job] = job
	}
	k := slotAttempt{s.Task.Slot, s.Task.Attempt}
	old, had := job[k]
	if had && s.Compare(old) <= 0 {
		return stale
	}
	if !had {
		t.size++
	}
	job[k] = *s
	return fresh
}

// Advance tries the parked statuses again, after the replica moved on, and returns what was news.
// The feeder of the replica calls it after each step.
func (t *Table) Advance() (news []Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	applied := t.ledger.Applied()
	for _, p := range t.parked.due(applied) {
		switch t.apply(p.author, p.inc, &p.status, applied) {
		case fresh:
			news = append(news, p.status)
		case ahead:
			t.parked.put(p.author, p.inc, p.status)
		}
	}
	return news
}

// Forget drops tasks whose end the ledger has decided. Several cost little more than one.
func (t *Table) Forget(tasks ...TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range tasks {
		t.drop(id)
	}
}

// Retire drops those of the tasks whose end the ledger has decided.
func (t *Table) Retire(tasks ...TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range tasks {
		if _, _, _, st := t.ledger.Assigned(id); st != Known {
			t.drop(id)
		}
	}
}

// Sweep drops every task whose end the ledger has decided: after it took a step whose tasks are not
// at hand.
func (t *Table) Sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, job := range t.jobs {
		for k := range job {
			task := Task(id, k.slot, k.attempt)
			if _, _, _, st := t.ledger.Assigned(task); st != Known {
				t.drop(task)
			}
		}
	}
}

func (t *Table) drop(id TaskID) {
	job := t.jobs[id.Job]
	k := slotAttempt{id.Slot, id.Attempt}
	if _, ok := job[k]; !ok {
		return
	}
	delete(job, k)
	t.size--
	if len(job) == 0 {
		delete(t.jobs, id.Job)
	}
}

// ForgetJob drops every task of a job.
func (t *Table) ForgetJob(id JobID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size -= len(t.jobs[id])
	delete(t.jobs, id)
}

// ForgetAuthor drops what an author said that waits for its assignment: it is no longer a member.
func (t *Table) ForgetAuthor(author PeerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parked.forget(author)
}

// Get returns the newest status of a task.
func (t *Table) Get(id TaskID) (Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.jobs[id.Job][slotAttempt{id.Slot, id.Attempt}]
	return s, ok
}

// OfJob returns the newest status of every task of a job that has one. The map is the caller's.
func (t *Table) OfJob(id JobID) map[TaskID]Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[TaskID]Status, len(t.jobs[id]))
	for _, s := range t.jobs[id] {
		all[s.Task] = s
	}
	return all
}

// Len is how many tasks have a status.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

// Parked is how many statuses wait for their assignment.
func (t *Table) Parked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.parked.size
}

// Spilled tells that statuses were lost because too many waited for their assignment, and that the
// replica has come nearer to them since. It says so once: the keeper of the batches merges all of
// them anew, since nobody else will send what was received here.
func (t *Table) Spilled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	again := t.parked.again
	t.parked.again = false
	return again
}

// All yields the newest status of every task, in no order, as they were when it was called.
func (t *Table) All() iter.Seq[Status] {
	t.mu.Lock()
	all := make([]Status, 0, t.size)
	for _, job := range t.jobs {
		for _, s := range job {
			all = append(all, s)
		}
	}
	t.mu.Unlock()
	return func(yield func(Status) bool) {
		for _, s := range all {
			if !yield(s) {
				return
			}
		}
	}
}
