package ledger

import (
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Replica is one peer's copy of the ledger: a State that many may read while one source – a raft
// node, a follower – feeds it. It implements taskstate.Assignments.
type Replica struct {
	feed sync.Mutex // serialises Apply and Reset with their notices, so that observers hear them in order

	mu     sync.RWMutex
	st     *State
	chains chainHistory
	verify admission.VerifyFunc

	obsMu sync.Mutex
	obs   []*observer
}

type observer struct{ f func(Event) }

// Event is what an observer hears: an entry and its results, or, with Reset, that the whole state
// was replaced.
type Event struct {
	Entry   Entry
	Results []Result
	Ended   []taskstate.JobID // jobs that ended with this entry
	Forgot  []Forgotten       // jobs that were forgotten with it
	Reset   bool
}

// Refused tells whether a command of the entry changed nothing.
func (ev *Event) Refused(i int) bool {
	return i < len(ev.Results) && ev.Results[i].Refused != CodeNone && ev.Results[i].Refused != CodePartly
}

// SetsTime reports whether the entry set the ledger's time back.
func (ev *Event) SetsTime() bool {
	for i, c := range ev.Entry.Commands {
		if c.SetTime != nil && !ev.Refused(i) && !ev.Results[i].Existed {
			return true
		}
	}
	return false
}

// NewReplica holds an empty State.
func NewReplica() *Replica { return &Replica{st: NewState()} }

// Verify has what people signed be checked from the next entry on; nil takes all for good.
func (r *Replica) Verify(f admission.VerifyFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify = f
	r.st.SetVerify(f)
}

// Read lets f look at the state. Nothing f is shown may be kept or changed, except what a
// JobRecord's Job returns. f must be quick and must not call the Replica, nor what calls it under
// a lock of its own, as a taskstate.Table does: an entry that waits to be applied keeps new readers
// out, and each of the three would wait for another.
func (r *Replica) Read(f func(*State)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f(r.st)
}

// Apply feeds the next entry. One at or below the index applied before is skipped: nil.
func (r *Replica) Apply(e Entry) []Result {
	r.feed.Lock()
	defer r.feed.Unlock()
	r.mu.Lock()
	if e.Index <= r.st.index {
		r.mu.Unlock()
		return nil
	}
	results := r.st.Apply(e)
	r.chains.note(r.st)
	ended, forgot := r.st.book.ending, r.st.book.finished.forgotten
	r.mu.Unlock()
	r.tell(Event{Entry: e, Results: results, Ended: ended, Forgot: forgot})
	return results
}

// Reset replaces the state, after a snapshot arrived. The Replica owns st from now on.
func (r *Replica) Reset(st *State) {
	r.feed.Lock()
	defer r.feed.Unlock()
	r.mu.Lock()
	r.st, r.chains = st, chainHistory{}
	st.SetVerify(r.verify)
	r.chains.note(st)
	r.mu.Unlock()
	r.tell(Event{Reset: true})
}

// Observe calls f after every Apply and Reset, in order, on the goroutine that fed the Replica,
// with no lock on the state held. f must be quick and must not call Apply, Reset or Propose. After
// cancel no further call begins.
func (r *Replica) Observe(f func(Event)) (cancel func()) {
	o := &observer{f: f}
	r.obsMu.Lock()
	r.obs = append(r.obs[:len(r.obs):len(r.obs)], o)
	r.obsMu.Unlock()
	return func() {
		r.obsMu.Lock()
		defer r.obsMu.Unlock()
		r.obs = slices.DeleteFunc(slices.Clone(r.obs), func(x *observer) bool { return x == o })
	}
}

func (r *Replica) tell(ev Event) {
	r.obsMu.Lock()
	obs := r.obs
	r.obsMu.Unlock()
	for _, o := range obs {
		o.f(ev)
	}
}

// Applied is the index of the last entry applied.
func (r *Replica) Applied() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.st.index
}

// Assigned tells whom a task was given to; see State.Assigned.
func (r *Replica) Assigned(t taskstate.TaskID) (taskstate.PeerID, taskstate.Incarnation, uint64, taskstate.LedgerView) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.st.Assigned(t)
}

// Spoken is the dialect that this program may speak to the cluster: one that reads but the first
// stops at the first entry that it cannot read, and asks nobody.
func (r *Replica) Spoken() (dialect int) {
	if wire.Dialect == 1 {
		return 1
	}
	r.Read(func(s *State) { dialect = s.Dialects().Spoken() })
	return dialect
}

// Speaks tells whether all members could read what is to be said: nil, or an error that names
// those that are to be upgraded.
func (r *Replica) Speaks(v any) (err error) {
	r.Read(func(s *State) { err = s.Dialects().Speaks(v) })
	return err
}

// ChainAt is what the chain was after an entry (0: after the last one), if that is remembered.
func (r *Replica) ChainAt(index uint64) (ChainMark, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if index == 0 {
		index = r.st.index
	}
	return r.chains.at(index)
}

// Encode is State.Encode under the lock.
func (r *Replica) Encode() ([]byte, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.st.Encode()
}

// Lives calls f with the incarnation that counts of every member that registered with an event's
// entry, and of every member when the whole state was replaced. Every observer of the replica calls
// it, and, with Reset, each that begins to. f must not call the Replica.
func (r *Replica) Lives(ev Event, f func(peer taskstate.PeerID, inc taskstate.Incarnation)) {
	tell := func(m Member) {
		if m.In() && m.Incarnation != "" {
			f(m.Entry.Peer, m.Incarnation)
		}
	}
	r.Read(func(s *State) {
		if ev.Reset {
			for m := range s.Members() {
				tell(m)
			}
		}
		for i := range ev.Entry.Commands {
			if c := ev.Entry.Commands[i].Register; c != nil {
				if m, ok := s.Member(c.Peer); ok {
					tell(m)
				}
			}
		}
	})
}

// KeepUp keeps a table in step with a replica, by each event that an observer hears: statuses that
// were parked are taken in once their assignment is applied, and what the ledger has decided is
// forgotten. It returns what the parked statuses brought.
func KeepUp(t *taskstate.Table, ev Event) (news []taskstate.Status) {
	if ev.Reset {
		t.Sweep()
	}
	for i := range ev.Entry.Commands {
		forget(t, &ev.Entry.Commands[i])
		if i < len(ev.Results) {
			t.Retire(ev.Results[i].Overtaken...)
		}
	}
	for _, id := range ev.Ended {
		t.ForgetJob(id)
	}
	return t.Advance()
}

// forget drops the tasks a command retired. One that was refused named tasks that are retired
// already, or that are kept.
func forget(t *taskstate.Table, c *Command) {
	switch {
	case c.Settle != nil:
		ids := make([]taskstate.TaskID, len(c.Settle.Statuses))
		for i := range c.Settle.Statuses {
			ids[i] = c.Settle.Statuses[i].Task
		}
		t.Retire(ids...)
	case c.Supersede != nil:
		t.Retire(c.Supersede.Task)
	case c.Remove != nil, c.Depart != nil, c.Register != nil:
		t.Sweep()
	}
}

// ChainMark is what a replica's chain was after an entry.
type ChainMark struct {
	From  uint64            `cbor:"1,keyasint"`
	Index uint64            `cbor:"2,keyasint"`
	Sum   [sha256.Size]byte `cbor:"3,keyasint"`
}

// chainKept is how many entries a replica can still say what its chain was after.
const chainKept = 2048

// chainHistory is the recent past of a replica's chain. The zero value is empty.
type chainHistory struct {
	marks []ChainMark // by index modulo chainKept
}

// note remembers what the chain is now.
func (l *chainHistory) note(st *State) {
	if st.chain.from == 0 {
		return
	}
	if l.marks == nil {
		l.marks = make([]ChainMark, chainKept)
	}
	l.marks[st.index%chainKept] = ChainMark{From: st.chain.from, Index: st.index, Sum: st.chain.sum}
}

// at is what the chain was after an entry, if that is remembered.
func (l *chainHistory) at(index uint64) (ChainMark, bool) {
	if l.marks == nil || index == 0 {
		return ChainMark{}, false
	}
	m := l.marks[index%chainKept]
	return m, m.Index == index
}
