// Package memledger is a ledger for tests: a log in memory instead of raft.
package memledger

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Ledger is a ledger.Ledger for tests: a log in memory that several peers share, each through its
// own view. What is proposed is decided and applied at once in the proposer's replica and in every
// view that does not lag. It is safe for concurrent use.
type Ledger struct {
	log     *memoryLog
	self    taskstate.PeerID
	replica *ledger.Replica
	lag     int // guarded by log.mu
}

type memoryLog struct {
	mu      sync.Mutex
	now     func() time.Time
	entries []ledger.Entry // entries[i] has index i+1
	views   map[taskstate.PeerID]*Ledger
	order   []*Ledger
	lead    atomic.Pointer[leadership] // written under mu; read by observers, who are called under mu
}

type leadership struct {
	peer  taskstate.PeerID // "" is nobody
	epoch taskstate.Epoch
}

// New founds a cluster of one: index 1 holds Found and Lead, self is admitted in every role and
// coordinates in epoch 1/1. Its worker is not registered yet. now stamps the entries.
func New(self taskstate.PeerID, now func() time.Time) *Ledger {
	l := &memoryLog{now: now, views: map[taskstate.PeerID]*Ledger{}}
	l.lead.Store(&leadership{self, taskstate.At(1, 1)})
	m := l.view(self)
	founder := admission.Entry{Cluster: "memorymemorymemo", Peer: self, Roles: admission.AllRoles(), At: now().UnixMilli(), By: self}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(m, []ledger.Command{{Found: &ledger.Found{Cluster: founder.Cluster, Generation: 1, Founder: founder}}, {Lead: &ledger.Lead{Chain: true}}})
	return m
}

func (l *memoryLog) view(id taskstate.PeerID) *Ledger {
	m := &Ledger{log: l, self: id, replica: ledger.NewReplica()}
	l.views[id] = m
	l.order = append(l.order, m)
	return m
}

// Peer is another peer's Ledger on the same log: the same one every time. It holds all that was
// decided so far; it is not admitted by this.
func (m *Ledger) Peer(id taskstate.PeerID) *Ledger {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	v, ok := m.log.views[id]
	if !ok {
		v = m.log.view(id)
		v.catchUp()
	}
	return v
}

// SetLag keeps this view so many entries behind the log from now on; 0 catches up at once.
// Proposing catches up, too.
func (m *Ledger) SetLag(entries int) {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	m.lag = entries
	m.catchUp()
}

// SetEpoch sets the epoch that entries carry from now on.
func (m *Ledger) SetEpoch(e taskstate.Epoch) {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	m.log.lead.Store(&leadership{m.log.lead.Load().peer, e})
}

// Lead makes this peer the coordinator, in the next term, and writes the Lead entry.
func (m *Ledger) Lead() taskstate.Epoch {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	e := m.log.lead.Load().epoch
	e.Term++
	m.log.lead.Store(&leadership{m.self, e})
	m.log.append(m, []ledger.Command{{Lead: &ledger.Lead{Chain: true}}})
	return e
}

// Unlead ends this peer's coordination: nobody can propose until somebody leads.
func (m *Ledger) Unlead() {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if l := m.log.lead.Load(); l.peer == m.self {
		m.log.lead.Store(&leadership{"", l.epoch})
	}
}

// Join admits a peer in every role and registers its worker, whatever peer leads: what most tests
// begin with.
func (m *Ledger) Join(peer taskstate.PeerID, inc taskstate.Incarnation) {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	e := admission.Entry{Cluster: "memorymemorymemo", Peer: peer, Roles: admission.AllRoles(), At: m.log.now().UnixMilli(), By: m.self}
	m.log.append(m, []ledger.Command{{Admit: &ledger.Admit{Entry: e}}, {Register: &ledger.Register{Peer: peer, Incarnation: inc}}})
}

// Propose implements ledger.Ledger.
func (m *Ledger) Propose(ctx context.Context, commands []ledger.Command) (uint64, []ledger.Result, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if l := m.log.lead.Load(); l.peer != m.self {
		return 0, nil, ledger.ErrNotCoordinator{Hint: l.peer}
	}
	results := m.log.append(m, commands)
	return uint64(len(m.log.entries)), results, nil
}

// Replica implements ledger.Ledger.
func (m *Ledger) Replica() *ledger.Replica { return m.replica }

// Coordinator implements ledger.Ledger.
func (m *Ledger) Coordinator() (taskstate.PeerID, taskstate.Epoch, bool) {
	l := m.log.lead.Load()
	return l.peer, l.epoch, l.peer != ""
}

// Entries is a copy of the log, for tests that replay it.
func (m *Ledger) Entries() []ledger.Entry {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	return slices.Clone(m.log.entries)
}

// append writes one entry and applies it everywhere it is due.
func (l *memoryLog) append(by *Ledger, commands []ledger.Command) []ledger.Result {
	e := ledger.Entry{
		Index: uint64(len(l.entries)) + 1, Epoch: l.lead.Load().epoch, Stamp: l.now().UnixMilli(), By: by.self,
		Commands: slices.Clone(commands),
	}
	for _, behind := range l.entries[by.replica.Applied():] {
		by.replica.Apply(behind)
	}
	l.entries = append(l.entries, e)
	results := by.replica.Apply(e)
	for _, v := range l.order {
		v.catchUp()
	}
	return results
}

// catchUp applies what is due in this view.
func (m *Ledger) catchUp() {
	due := len(m.log.entries) - m.lag
	for i := int(m.replica.Applied()); i < due; i++ {
		m.replica.Apply(m.log.entries[i])
	}
}
