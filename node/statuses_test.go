package node

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

const someJob = taskstate.JobID("k3v5q7x2ab")

func running(slot int, index uint64) taskstate.Status {
	return taskstate.Status{Task: taskstate.Task(someJob, slot, 1), Seq: 1, State: taskstate.Running, Index: index, At: 1000, Exit: taskstate.NoExit}
}

func complete(slot int, index uint64) taskstate.Status {
	return taskstate.Status{Task: taskstate.Task(someJob, slot, 1), Seq: 2, State: taskstate.Complete, Index: index, At: 2000}
}

// taskEvents are those of tasks since seen.
func (s *scripted) taskEvents(seen string) (states []string) {
	s.t.Helper()
	for _, e := range eventsAfter(s.t, s.View, seen) {
		if e.Kind == "task" {
			states = append(states, e.State)
		}
	}
	return states
}

func TestAnEnvelopeIsNewsOnceWhicheverWayItComes(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 3)
	index := s.assign(someJob, a, 1, 3)
	seen := token(t, s.View)
	env := a.envelope(1, running(1, index), complete(2, index))
	raw := bytesOf(t, env)
	if v := s.statuses.fromTopic("neighbour", raw); v != p2p.Accept {
		t.Fatal("news did not travel on:", v)
	}
	if got, ok := s.table.Get(taskstate.Task(someJob, 2, 1)); !ok || got.State != taskstate.Complete {
		t.Fatal(got, ok)
	}
	for range 2 {
		if v := s.statuses.fromTopic("another", raw); v != p2p.Ignore {
			t.Fatal("the same again travelled on:", v)
		}
		if b, err := s.statuses.open(a.id, raw); err != nil || b.Number != 1 || len(b.Statuses) != 2 {
			t.Fatal("the coordinator needs its content all the same:", b, err)
		}
	}
	for i := range uint64(recentBatches + 1) { // old enough that it is remembered by the store alone
		if _, _, err := s.statuses.accept(bytesOf(t, a.envelope(2+i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, fresh, err := s.statuses.accept(raw); fresh || err != nil {
		t.Fatal(fresh, err)
	}
	if got := s.taskEvents(seen); len(got) != 2 || got[0] != "running" || got[1] != "complete" {
		t.Fatal(got)
	}
}

func TestWhatAnExchangeBroughtIsMergedWithoutBeingKeptAgain(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 1)
	env := a.envelope(1, running(1, s.assign(someJob, a, 1, 1)))
	if !s.store.Add(env) {
		t.Fatal("the store refuses it")
	}
	s.statuses.pulled(env)
	if _, ok := s.table.Get(taskstate.Task(someJob, 1, 1)); !ok {
		t.Fatal("it was not merged")
	}
	if _, fresh, err := s.statuses.accept(bytesOf(t, env)); fresh || err != nil {
		t.Fatal(fresh, err)
	}
}

func TestStatusesThatAreNotTheirAuthorsAreRefused(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	a, b := s.newAuthor(), s.newAuthor()
	s.take(someJob, "job", s.self, 1)
	index := s.assign(someJob, a, 1, 1)
	good := a.envelope(1, complete(1, index))

	forged := good
	forged.Sig = b.envelope(1, complete(1, index)).Sig
	changed := good
	changed.Body = append([]byte{}, good.Body...)
	changed.Body[len(changed.Body)-1] ^= 1
	renumbered := good
	renumbered.Number = 2
	of := taskstate.Batch{Author: a.id, Incarnation: a.inc, Number: 1, Statuses: []taskstate.Status{complete(1, index)}}
	borrowed := b.sealed(of, 1) // b signs what says it is a's
	elsewhere := a.sealed(of, 7)
	stranger := newStranger(t).envelope(1, complete(1, index))

	for what, raw := range map[string][]byte{
		"a wrong signature": bytesOf(t, forged), "a changed body": bytesOf(t, changed), "another number": bytesOf(t, renumbered),
		"another's batch": bytesOf(t, borrowed), "a number that is not the batch's": bytesOf(t, elsewhere),
		"a stranger's": bytesOf(t, stranger), "rubbish": []byte("rubbish"), "nothing": nil,
	} {
		if v := s.statuses.fromTopic("neighbour", raw); v != p2p.Reject {
			t.Errorf("%s: %v", what, v)
		}
	}
	if s.table.Len() != 0 {
		t.Fatal("the table believed some of it")
	}
	if _, err := s.statuses.open(b.id, bytesOf(t, good)); err == nil || !strings.Contains(err.Error(), "as its own") {
		t.Error("a session of b carries statuses of a:", err)
	}
	// An author speaks only of tasks that are assigned to it.
	if _, _, err := s.statuses.accept(bytesOf(t, b.envelope(1, complete(1, index)))); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.table.Get(taskstate.Task(someJob, 1, 1)); got.State != taskstate.Complete {
		t.Errorf("a's own word is lost: %+v", got)
	}
}

func TestStatusesAheadOfTheLedgerWaitForIt(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 1)
	next := s.replica.Applied() + 1
	seen := token(t, s.View)
	if _, fresh, err := s.statuses.accept(bytesOf(t, a.envelope(1, running(1, next)))); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	if s.table.Parked() != 1 || len(s.taskEvents(seen)) != 0 {
		t.Fatal("believed before the assignment is known")
	}
	if got := s.assign(someJob, a, 1, 1); got != next {
		t.Fatal(got, next)
	}
	if got := s.taskEvents(seen); len(got) != 2 || got[0] != "assigned" || got[1] != "running" || s.table.Parked() != 0 {
		t.Fatal(got, s.table.Parked())
	}
}

func TestAnEndIsShownOnceAndForgottenWhenItIsDecided(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 2)
	index := s.assign(someJob, a, 1, 2)
	seen := token(t, s.View)
	if _, _, err := s.statuses.accept(bytesOf(t, a.envelope(1, complete(1, index)))); err != nil {
		t.Fatal(err)
	}
	s.settle(a, complete(1, index)) // seen before
	s.settle(a, complete(2, index)) // news
	if s.table.Len() != 0 {
		t.Error("the table still holds what the ledger knows")
	}
	evs := eventsAfter(t, s.View, seen)
	var got []string
	for _, e := range evs {
		got = append(got, e.Kind+" "+e.State)
	}
	if strings.Join(got, ", ") != "task complete, task complete, job complete" {
		t.Fatal(got)
	}
}

func TestEventsTellWhatWasDecided(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	seen := token(t, s.View)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 2)
	s.assign(someJob, a, 1, 1)
	s.write(ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(someJob, 1, 1), Reason: taskstate.ReasonUnreachable, Again: true}})
	s.write(ledger.Command{Cancel: &ledger.Cancel{Job: someJob, Reason: "by me"}})
	s.write(ledger.Command{Depart: &ledger.Depart{Peer: a.id}})
	s.memory.Lead()
	s.follow()
	tombstone, _ := s.roster.Get(a.id)
	tombstone.Removed, tombstone.At = true, tombstone.At+1
	tombstone, err := tombstone.Signed(s.host)
	if err != nil {
		t.Fatal(err)
	}
	s.write(ledger.Command{Remove: &ledger.Remove{Peer: a.id, Reason: "by me", Entry: &tombstone}})
	evs := eventsAfter(t, s.View, seen)
	var got []string
	for _, e := range evs {
		got = append(got, e.Kind+" "+e.State)
	}
	want := "peer admitted, peer registered, job pending, task assigned, task superseded, job cancelled, job shutdown, peer left, coordinator elected, peer removed"
	if strings.Join(got, ", ") != want {
		t.Fatalf("%v", got)
	}
	if s.roster.Admitted(a.id) {
		t.Error("the gate still knows a removed peer")
	}
}
