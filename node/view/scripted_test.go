package view

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

// scripted is the view of a peer whose ledger a test writes: a memory twin decides, the replica
// follows entry by entry.
type scripted struct {
	*View
	t      testing.TB
	self   taskstate.PeerID
	memory *memledger.Ledger
	table  *taskstate.Table
	held   []Held
	made   int
}

func newScripted(t testing.TB) *scripted {
	t.Helper()
	roster, err := admission.OpenRoster(filepath.Join(t.TempDir(), "roster"), p2p.Verify)
	if err != nil {
		t.Fatal(err)
	}
	replica := ledger.NewReplica()
	s := &scripted{t: t, self: "self", memory: memledger.New("self", time.Now), table: taskstate.NewTable(replica, 100)}
	s.View = New(Config{
		Self: s.self, Boot: "boot", Started: time.Now(), Now: time.Now, Replica: replica, Ledger: nobody{}, Table: s.table, Roster: roster,
		Members: func() *membership.View { return &membership.View{} }, Held: func() []Held { return slices.Clone(s.held) },
		Offer: func() session.Offer { return session.Offer{} }, Net: nowhere{}, Wrong: func(string) []api.Trouble { return nil },
		Ask: func(context.Context, calls.ClusterCall) *calls.ClusterView { return nil },
	})
	replica.Observe(s.Events.Decided)
	replica.Observe(func(ev ledger.Event) { s.Events.Reported(ledger.KeepUp(s.table, ev)) })
	replica.Observe(func(ledger.Event) { s.Applied() })
	s.follow()
	return s
}

// nobody decides.
type nobody struct{}

func (nobody) Coordinator() (who taskstate.PeerID, epoch taskstate.Epoch, ok bool) { return }
func (nobody) Distance() time.Duration                                             { return 0 }
func (nobody) Voters() []quorum.Voter                                              { return nil }
func (nobody) Missing() []taskstate.PeerID                                         { return nil }
func (nobody) Copy() (c quorum.Copy, err error)                                    { return c, nil }
func (nobody) Stale() *quorum.StaleSeat                                            { return nil }
func (nobody) SetAside() []quorum.Aside                                            { return nil }
func (nobody) Losses() []quorum.LostSeat                                           { return nil }

// nowhere is a network that reaches nobody.
type nowhere struct{}

func (nowhere) Connected(string) (direct, relayed bool) { return false, false }
func (nowhere) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("nobody is there")
}

// follow applies what the memory twin has decided.
func (s *scripted) follow() {
	for _, e := range s.memory.Entries() {
		s.cfg.Replica.(*ledger.Replica).Apply(e) // skips what it has
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

// author is a worker somewhere else.
type author struct {
	id  taskstate.PeerID
	inc taskstate.Incarnation
}

func (s *scripted) newAuthor() author {
	s.t.Helper()
	s.made++
	a := author{fmt.Sprintf("%d-some-other-worker-%d", s.made, s.made), "0123456789abcdef"}
	s.write(
		ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: a.id, Roles: admission.AllRoles(), At: time.Now().UnixMilli()}}},
		ledger.Command{Register: &ledger.Register{Peer: a.id, Incarnation: a.inc}},
	)
	return a
}

// assign gives a run of slots to an author, and returns the index that their statuses must name.
func (s *scripted) assign(job taskstate.JobID, a author, first, n int) uint64 {
	s.t.Helper()
	return s.write(ledger.Command{Assign: &ledger.Assign{
		Job: job, Peer: a.id, Incarnation: a.inc, Slots: []ledger.Slots{{First: first, N: n, Attempt: 1}},
	}})
}

// report merges statuses of an author.
func (s *scripted) report(a author, number uint64, statuses ...taskstate.Status) {
	s.t.Helper()
	news, _ := s.table.Merge(taskstate.Batch{Author: a.id, Incarnation: a.inc, Number: number, Statuses: statuses})
	s.Events.Reported(news)
}

// settle decides the end of one assigned slot.
func (s *scripted) settle(a author, st taskstate.Status) {
	s.t.Helper()
	s.write(ledger.Command{Settle: &ledger.Settle{Peer: a.id, Incarnation: a.inc, Statuses: []taskstate.Status{st}}})
}

const someJob = taskstate.JobID("k3v5q7x2ab")

func running(slot int, index uint64) taskstate.Status {
	return taskstate.Status{Task: taskstate.Task(someJob, slot, 1), Seq: 1, State: taskstate.Running, Index: index, At: 1000, Exit: taskstate.NoExit}
}

func complete(slot int, index uint64) taskstate.Status {
	return taskstate.Status{Task: taskstate.Task(someJob, slot, 1), Seq: 2, State: taskstate.Complete, Index: index, At: 2000}
}

func noopJob(name string, count int, each time.Duration) taskstate.Job {
	j := taskstate.Job{Name: name, Count: count}
	j.Run.Noop = &taskstate.Noop{Duration: each.Milliseconds()}
	jobfile.Defaults(&j)
	return j
}

func timed(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// wants fails unless err is an api.Error of this code whose text holds all parts.
func wants(t *testing.T, err error, code api.Code, parts ...string) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("want an error of code %s, not %v", code, err)
	}
	for _, p := range parts {
		if !strings.Contains(e.Message, p) {
			t.Errorf("the error should say %q: %s", p, e.Message)
		}
	}
}

func now() int64 { return time.Now().UnixMilli() }
