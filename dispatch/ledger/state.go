package ledger

import (
	"bytes"
	"iter"
	"maps"
	"slices"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// State is everything that was decided, as the applied entries left it. It is a pure machine: the
// same entries make the same state on every peer. It is not safe for concurrent use; a Replica
// guards one.
type State struct {
	ledgerHead
	next NextState

	roster   roster
	book     jobTable
	warrants Warrants
	chain    chain
	public   Public // of the newest entry
}

// head is how far the ledger has come, whose it is, and what holds for the whole cluster.
type ledgerHead struct {
	index       uint64
	epoch       taskstate.Epoch
	stamp       int64
	coordinator taskstate.PeerID
	cluster     string
	generation  uint64
	began       uint64 // index at which a recovered generation began; 0 in the first
	open        bool
	settings    Settings
	timeSet     TimeSet
}

// NewState is a ledger before its first entry.
func NewState() *State {
	s := &State{roster: newRoster()}
	s.book = newJobTable(&s.ledgerHead, &s.roster)
	s.warrants = Warrants{head: &s.ledgerHead, roster: &s.roster, book: &s.book}
	return s
}

// SetVerify has what people signed be checked from the next entry on; nil takes all for good.
func (s *State) SetVerify(f admission.VerifyFunc) { s.warrants.verify = f }

// Index is the index of the last entry applied.
func (s *State) Index() uint64 { return s.index }

// JustEnded lists the jobs that ended with the last entry applied, in the order they did. The slice
// is not written to again.
func (s *State) JustEnded() []taskstate.JobID { return s.book.ending }

// Epoch is the newest epoch an applied entry carried.
func (s *State) Epoch() taskstate.Epoch { return s.epoch }

// Coordinator is the peer that wrote the first entry of Epoch; "" before the first entry.
func (s *State) Coordinator() taskstate.PeerID { return s.coordinator }

// Stamp is the ledger's own clock, in milliseconds since 1970: the highest stamp applied, so it
// never goes back.
func (s *State) Stamp() int64 { return s.stamp }

// Cluster is the cluster's id, "" before Found.
func (s *State) Cluster() string { return s.cluster }

// Generation counts the ledgers of this cluster: 1, raised by `peer recover`; 0 before Found.
func (s *State) Generation() uint64 { return s.generation }

// Began is the index at which this generation of the ledger began, if it was recovered from an
// older one; otherwise 0. What was assigned at a lower index may have ended, or been given up, in
// decisions that were lost.
func (s *State) Began() uint64 { return s.began }

// Open tells whether anybody who dials may join.
func (s *State) Open() bool { return s.open }

// Job finds a job by its full id.
func (s *State) Job(id taskstate.JobID) (*JobRecord, bool) {
	j, ok := s.book.jobs[id]
	return j, ok
}

// JobCount is how many jobs are held, finished ones included.
func (s *State) JobCount() int { return len(s.book.order) }

// Jobs yields every job held, the newest first.
func (s *State) Jobs() iter.Seq[*JobRecord] {
	return func(yield func(*JobRecord) bool) {
		for _, j := range slices.Backward(s.book.order) {
			if !yield(j) {
				return
			}
		}
	}
}

// FindJobs finds what a person means: the job of that id; else the jobs of that name, newest first;
// else the jobs whose id begins so, newest first. (Of several of one name the newest is meant;
// several of one prefix are ambiguous.)
func (s *State) FindJobs(nameOrPrefix string) []*JobRecord {
	if nameOrPrefix == "" {
		return nil
	}
	if j, ok := s.book.jobs[taskstate.JobID(nameOrPrefix)]; ok {
		return []*JobRecord{j}
	}
	var named, prefixed []*JobRecord
	for j := range s.Jobs() {
		if j.job.Name == nameOrPrefix {
			named = append(named, j)
		}
		if id := string(j.job.ID); len(id) > len(nameOrPrefix) && id[:len(nameOrPrefix)] == nameOrPrefix {
			prefixed = append(prefixed, j)
		}
	}
	if len(named) > 0 {
		return named
	}
	return prefixed
}

// Assigned tells whom a task was given to, and whether the ledger still waits for its end.
func (s *State) Assigned(t taskstate.TaskID) (taskstate.PeerID, taskstate.Incarnation, uint64, taskstate.LedgerView) {
	return s.book.assigned(t)
}

// RunBeside is the newest run that goes on beside one that a schedule is to start, if it allows
// none; the schedule is known. The coordinator looks before it decides, but somebody may have had
// an older one tried again, or started one, since: Submit looks again.
func (s *State) RunBeside(o *taskstate.Origin) *JobRecord { return s.book.runBeside(o) }

// OpenOn yields the tasks given to any incarnation of a peer whose end is not decided yet: jobs in
// order of acceptance, slots ascending.
func (s *State) OpenOn(peer taskstate.PeerID) iter.Seq[taskstate.TaskID] {
	return func(yield func(taskstate.TaskID) bool) {
		for _, j := range s.book.order {
			for n, c := range j.slots.openOf(peer) {
				if !yield(taskstate.Task(j.job.ID, n, int(c.attempt))) {
					return
				}
			}
		}
	}
}

// Members yields every peer that was ever admitted, by id; look at Entry.Removed and Left.
func (s *State) Members() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.roster.members)) {
			if !yield(*s.roster.members[id]) {
				return
			}
		}
	}
}

// Member finds a peer that was ever admitted.
func (s *State) Member(peer taskstate.PeerID) (Member, bool) {
	m, ok := s.roster.members[peer]
	if !ok {
		return Member{}, false
	}
	return *m, true
}

// Settings are those of the cluster, zero where nobody said anything.
func (s *State) Settings() Settings { return s.settings }

// Invites lists the invites, the oldest first.
func (s *State) Invites() []InviteRecord {
	out := make([]InviteRecord, 0, len(s.roster.invites))
	for _, id := range slices.Sorted(maps.Keys(s.roster.invites)) {
		out = append(out, *s.roster.invites[id])
	}
	slices.SortStableFunc(out, func(a, b InviteRecord) int { return int(min(1, max(-1, a.Created-b.Created))) })
	return out
}

// InviteByKey finds an invite by its key (admission.TicketKey). It looks at all of them, so that
// the time it takes tells nothing.
func (s *State) InviteByKey(key []byte) (InviteRecord, bool) {
	var found *InviteRecord
	for _, r := range s.roster.invites {
		if bytes.Equal(r.Secret, key) && (found == nil || r.ID < found.ID) {
			found = r
		}
	}
	if found == nil || len(key) == 0 {
		return InviteRecord{}, false
	}
	return *found, true
}

// Forgotten tells whether a job was here once and is forgotten, as far as that is remembered, and
// why.
func (s *State) Forgotten(id taskstate.JobID) (Gone, bool) {
	g, was := s.book.finished.gone.why[id]
	return g, was
}

// ForgottenSince counts the jobs that were forgotten after a moment, and names the last one.
func (s *State) ForgottenSince(stamp int64) (n int, last taskstate.JobID) {
	g := &s.book.finished.gone
	for i := len(g.ids) - 1; i >= 0 && g.why[g.ids[i]].At > stamp; i-- {
		n++
	}
	if n > 0 {
		last = g.ids[len(g.ids)-1]
	}
	return n, last
}

// book is the jobs, and what was decided about each. It alone changes them; State asks it to, and
// Warrants read it.
type jobTable struct {
	head   *ledgerHead // as the entry that is being applied has it; never changed here
	roster *roster     // the same

	jobs     map[taskstate.JobID]*JobRecord
	order    []*JobRecord // by index of acceptance, ascending
	finished finishedJobs
	ending   []taskstate.JobID // with the newest entry

	owners  owners
	names   names
	waiters waiters
	effects effects // of the command that is being applied
}

func newJobTable(h *ledgerHead, r *roster) jobTable {
	return jobTable{
		head: h, roster: r, jobs: map[taskstate.JobID]*JobRecord{}, finished: finishedJobs{gone: newGoneJobs(), needed: needed{}},
		owners: newOwners(), names: names{}, waiters: waiters{},
	}
}

func (b *jobTable) turn() applying {
	return applying{index: b.head.index, stamp: b.head.stamp, effects: &b.effects}
}

// lasts tells whether there is a job of that id that goes on until somebody ends it.
func (b *jobTable) lasts(id taskstate.JobID) bool {
	j, ok := b.jobs[id]
	return ok && j.long != nil
}

// assigned is State.Assigned.
func (b *jobTable) assigned(t taskstate.TaskID) (taskstate.PeerID, taskstate.Incarnation, uint64, taskstate.LedgerView) {
	j, ok := b.jobs[t.Job]
	if !ok {
		return "", "", 0, taskstate.Unknown
	}
	return j.assigned(t)
}

// raise has every job's attempts numbered so that none of a lost part of the ledger is given twice.
func (b *jobTable) raise() {
	for _, j := range b.order {
		if !j.cancelled { // one that is over can be renewed; lift raises a cancelled one
			j.slots.raise()
		}
	}
}

// names are those of lasting and scheduled jobs that go on.
type names map[string]*JobRecord

// wanted tells whether a job's name is to be its own as long as it goes on.
func (n names) wanted(j *JobRecord) bool {
	return j.job.Name != "" && (j.Lasts() || j.Scheduled())
}

// holder is the job whose name it is, if this one wants it for itself.
func (n names) holder(j *JobRecord) *JobRecord {
	if !n.wanted(j) {
		return nil
	}
	return n[j.job.Name]
}

// take has a job's name be its own, if it is to be.
func (n names) claim(j *JobRecord) {
	if n.wanted(j) {
		n[j.job.Name] = j
	}
}

// free gives a job's name free.
func (n names) free(j *JobRecord) {
	if n[j.job.Name] == j {
		delete(n, j.job.Name)
	}
}

// waiters are the jobs that wait for others, by what they wait for, in order of acceptance.
type waiters map[taskstate.JobID][]*JobRecord

// pop hands over those that wait for a job.
func (w waiters) pop(id taskstate.JobID) []*JobRecord {
	defer delete(w, id)
	return w[id]
}

// remove takes a job out of the lists of those it waits for.
func (w waiters) remove(j *JobRecord) {
	for _, id := range j.blocked {
		rest := slices.DeleteFunc(w[id], func(x *JobRecord) bool { return x == j })
		if len(rest) == 0 {
			delete(w, id)
		} else {
			w[id] = rest
		}
	}
	j.blocked = nil
}
