package node

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

// telling makes the part of a peer that tells what becomes of tasks: one job of n slots, all given
// to one worker.
func telling(t *testing.T, n int, early func(*statuses)) (_ *statuses, told func() map[string][]taskstate.State) {
	t.Helper()
	p := &entryObservers{replica: ledger.NewReplica(), store: digest.NewStore(0)}
	table := taskstate.NewTable(p.replica, 0)
	p.view = view.New(view.Config{Boot: "boot", Now: time.Now, Replica: p.replica, Table: table})
	p.statuses = &statuses{table: table, replica: p.replica, report: p.view.Events.Reported, offer: p.store.Add, spilled: make(chan struct{}, 1)}
	begin := token(t, p.view)
	lead := memledger.New("c", time.Now)
	lead.Join("w", "w-1")
	propose(t, lead, ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{
		ID: "j", Type: taskstate.BatchJob, Count: n, Run: taskstate.Run{Noop: &taskstate.Noop{}},
	}}})
	for _, e := range lead.Entries() {
		p.replica.Apply(e)
	}
	p.replica.Observe(func(ledger.Event) { early(p.statuses) })
	p.replica.Observe(p.decided)
	p.replica.Observe(p.statuses.keepUp)
	propose(t, lead, ledger.Command{Assign: &ledger.Assign{
		Job: "j", Peer: "w", Incarnation: "w-1", Slots: []ledger.Slots{{First: 1, N: n, Attempt: 1}},
	}})
	for _, e := range lead.Entries() {
		p.replica.Apply(e)
	}
	return p.statuses, func() map[string][]taskstate.State {
		out := map[string][]taskstate.State{}
		for _, e := range eventsAfter(t, p.view, begin) {
			var s taskstate.State
			if e.Kind == "task" && s.UnmarshalText([]byte(e.State)) == nil {
				out[e.Task] = append(out[e.Task], s)
			}
		}
		return out
	}
}

func propose(t *testing.T, lead *memledger.Ledger, c ledger.Command) {
	t.Helper()
	if _, r, err := lead.Propose(t.Context(), []ledger.Command{c}); err != nil || r[0].Refused != ledger.CodeNone {
		t.Fatal(r, err)
	}
}

// reports merges statuses of one state, as if an envelope had brought them.
func (s *statuses) reports(state taskstate.State, slots int) {
	b := taskstate.Batch{Author: "w", Incarnation: "w-1", Number: 1}
	for slot := 1; slot <= slots; slot++ {
		b.Statuses = append(b.Statuses, taskstate.Status{
			Task: taskstate.Task("j", slot, 1), Seq: uint64(state), State: state, Index: 1, Exit: taskstate.NoExit,
		})
	}
	s.mergeAndTell(b)
}

func TestAnAssignmentIsNotToldAfterWhatTheWorkerReportedAboutIt(t *testing.T) {
	t.Parallel()
	_, told := telling(t, 1, func(s *statuses) { s.reports(taskstate.Running, 1) }) // it is applied, and nobody was told yet
	if got := told()["j.1.1"]; len(got) != 1 || got[0] != taskstate.Running {
		t.Errorf("told %v", got)
	}
}

// Two batches come at one time by two ways, and the second is short: it must not be told while the
// first, which was merged before it, is still made into events.
func TestStatusesThatComeTogetherAreToldInTheirOrder(t *testing.T) {
	t.Parallel()
	const tasks = 500 // so few events that a watcher is told each of them
	for range 120 {
		s, told := telling(t, tasks, func(*statuses) {})
		var both sync.WaitGroup
		both.Go(func() { s.reports(taskstate.Running, tasks) })
		both.Go(func() {
			for {
				if _, ok := s.table.Get(taskstate.Task("j", 1, 1)); ok {
					break
				}
				runtime.Gosched()
			}
			s.reports(taskstate.Complete, 1)
		})
		both.Wait()
		if got := told()["j.1.1"]; len(got) != 3 || got[1] != taskstate.Running || got[2] != taskstate.Complete {
			t.Fatalf("told %v", got)
		}
	}
}
