package view

import (
	"context"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func drainOf(peer taskstate.PeerID, grace time.Duration) ledger.Command {
	return ledger.Command{Avail: &ledger.SetAvailability{Peer: peer, Availability: ledger.AvailDrain, Grace: grace.Milliseconds()}}
}

func TestADrainIsOverWhenTheLastEndIsSettledAndNotWhenItIsReported(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 30)
	index := s.assign(someJob, a, 1, 25)
	s.write(drainOf(a.id, time.Hour))
	d, err := s.drainNow(a.id)
	if err != nil || d.Left != 25 || len(d.Tasks) != drainShown || d.Tasks[0].Slot != 1 || d.Until == nil || time.Until(*d.Until) > time.Hour {
		t.Fatalf("%+v %v", d, err)
	}
	if _, results, err := s.memory.Propose(t.Context(), []ledger.Command{{Assign: &ledger.Assign{
		Job: someJob, Peer: a.id, Incarnation: a.inc, Slots: []ledger.Slots{{First: 26, N: 5, Attempt: 1}},
	}}}); err != nil || results[0].Refused != ledger.CodeUnavailable {
		t.Fatalf("what is left would grow again: %+v %v", results, err)
	}
	s.follow()
	for slot := 1; slot <= 25; slot++ {
		end := taskstate.Status{Task: taskstate.Task(someJob, slot, 1), Seq: 1, Index: index, State: taskstate.Complete, At: 1000}
		s.table.Merge(taskstate.Batch{Author: a.id, Incarnation: a.inc, Number: uint64(slot), Statuses: []taskstate.Status{end}}) // everybody knows
		if d, err = s.drainNow(a.id); err != nil || d.Left != 26-slot {
			t.Fatalf("before the end of slot %d is settled: %+v %v", slot, d, err)
		}
		s.settle(a, end)
	}
	if d, err = s.drainNow(a.id); err != nil || d.Left != 0 || d.Until != nil || d.Note != "" {
		t.Fatalf("%+v %v", d, err)
	}
}

func TestAWaiterForADrainHearsThatItWasTakenBack(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 1)
	s.assign(someJob, a, 1, 1)
	wants(t, s.Draining(timed(t), a.id, nil), api.Conflict, "is not drained", "peer drain")
	s.write(drainOf(a.id, 0))
	told := 0
	err := s.Draining(timed(t), a.id, func(d api.Draining) error {
		told += d.Left
		s.write(ledger.Command{Avail: &ledger.SetAvailability{Peer: a.id, Availability: ledger.AvailActive}})
		return nil
	})
	if wants(t, err, api.Conflict, "is not drained"); told != 1 {
		t.Errorf("told of %d", told)
	}
	ctx, cancel := context.WithCancel(timed(t))
	s.write(drainOf(a.id, 0))
	if err := s.Draining(ctx, a.id, func(api.Draining) error { cancel(); return nil }); err == nil {
		t.Error("who hangs up is waited for")
	}
	// A peer that is removed has nothing any more.
	s.write(ledger.Command{Remove: &ledger.Remove{Peer: a.id}})
	if d, err := s.drainNow(a.id); err != nil || d.Left != 0 {
		t.Errorf("%+v %v", d, err)
	}
}

func TestAPeerIsMeantByItsIdItsNameOrSelf(t *testing.T) {
	s := newScripted(t)
	s.newAuthor()
	if id, err := s.Who.MeantPeer("self"); id != s.self || err != nil {
		t.Error(id, err)
	}
	_, err := s.Who.MeantPeer("nobody")
	wants(t, err, api.NotFound, "peer peers")
}
