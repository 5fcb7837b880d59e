package node

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/orders"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

// newUnborn is a peer that has all its parts and does not run: its replica is fed by the test, and
// it hears it.
func newUnborn(t *testing.T) *Node {
	t.Helper()
	n, err := New(small(t, Config{}))
	if err != nil {
		t.Fatal(err)
	}
	undo := n.observers.observe()
	t.Cleanup(func() {
		for _, f := range undo {
			f()
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// snapshotOf is a copy of a peer's decided state, as it travels.
func snapshotOf(t *testing.T, l *living) (s *ledger.State) {
	t.Helper()
	var b []byte
	var err error
	l.replica.Read(func(s *ledger.State) { b, err = s.Encode() })
	if err == nil {
		s, err = ledger.DecodeState(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scripted is an unborn peer whose ledger a test writes: a memory twin decides, the peer follows
// entry by entry.
type scripted struct {
	*Node
	*view.View
	*orders.Orders
	t      *testing.T
	memory *memledger.Ledger
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	n := newUnborn(t)
	s := &scripted{n, n.view, n.orders, t, memledger.New(n.self, time.Now)}
	s.follow()
	return s
}

// follow applies what the memory twin has decided.
func (s *scripted) follow() {
	for _, e := range s.memory.Entries() {
		s.replica.Apply(e) // skips what it has
	}
}

// write decides commands, none of which may be refused, and returns the entry's index.
func (s *scripted) write(commands ...ledger.Command) uint64 {
	s.t.Helper()
	index, results, err := s.memory.Propose(s.t.Context(), commands)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, r := range results {
		if r.Refused != ledger.CodeNone {
			s.t.Fatalf("command %d was refused: %s", i, r.Refused)
		}
	}
	s.follow()
	return index
}

// take submits a job under an id.
func (s *scripted) take(id taskstate.JobID, name, submitter string, count int) {
	s.t.Helper()
	j := noopJob(name, count, 0)
	j.ID, j.Submitter = id, submitter
	s.write(ledger.Command{Submit: &ledger.Submit{Job: j}})
}

// author is a worker somewhere else, with a key of its own.
type author struct {
	t   *testing.T
	id  taskstate.PeerID
	inc taskstate.Incarnation
	key crypto.PrivKey
}

// newStranger is one that nobody has admitted.
func newStranger(t *testing.T) author {
	t.Helper()
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	id, err := p2p.ID(key)
	if err != nil {
		t.Fatal(err)
	}
	return author{t, id, "0123456789abcdef", key}
}

func (s *scripted) newAuthor() author {
	s.t.Helper()
	a := newStranger(s.t)
	e := s.entry(a.id)
	s.write(ledger.Command{Admit: &ledger.Admit{Entry: e, Dialect: wire.Dialect}}, ledger.Command{Register: &ledger.Register{Peer: a.id, Incarnation: a.inc}})
	return a
}

// entry is a roster entry that this peer signs.
func (s *scripted) entry(peer taskstate.PeerID) admission.Entry {
	s.t.Helper()
	cluster := ""
	s.replica.Read(func(st *ledger.State) { cluster = st.Cluster() })
	e, err := admission.Entry{Cluster: cluster, Peer: peer, Roles: admission.AllRoles(), At: now()}.Signed(s.host)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// assign gives a run of slots to an author, and returns the index that their statuses must name.
func (s *scripted) assign(job taskstate.JobID, a author, first, n int) uint64 {
	s.t.Helper()
	return s.write(ledger.Command{Assign: &ledger.Assign{
		Job: job, Peer: a.id, Incarnation: a.inc, Slots: []ledger.Slots{{First: first, N: n, Attempt: 1}},
	}})
}

// settle decides the end of one assigned slot.
func (s *scripted) settle(a author, st taskstate.Status) {
	s.t.Helper()
	s.write(ledger.Command{Settle: &ledger.Settle{Peer: a.id, Incarnation: a.inc, Statuses: []taskstate.Status{st}}})
}

// envelope is a batch of the author's, signed with its key.
func (a author) envelope(number uint64, statuses ...taskstate.Status) digest.Envelope {
	a.t.Helper()
	return a.sealed(taskstate.Batch{Author: a.id, Incarnation: a.inc, Number: number, Statuses: statuses}, number)
}

func (a author) sealed(b taskstate.Batch, number uint64) digest.Envelope {
	a.t.Helper()
	body, err := taskstate.EncodeBatch(b)
	if err != nil {
		a.t.Fatal(err)
	}
	env, err := digest.Seal(a.id, string(a.inc), number, body, a.key.Sign)
	if err != nil {
		a.t.Fatal(err)
	}
	return env
}

func bytesOf(t *testing.T, e digest.Envelope) []byte {
	t.Helper()
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
