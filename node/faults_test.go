package node

import (
	"testing"

	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

func TestOfTwoBatchesWithOneNumberTheFirstCountsAndTheAuthorIsFound(t *testing.T) {
	t.Parallel()
	for what, between := range map[string]uint64{"at once": 0, "when only the store remembers the first": recentBatches + 1} {
		t.Run(what, func(t *testing.T) {
			s := newScripted(t)
			a := s.newAuthor()
			s.take(someJob, "job", s.self, 1)
			index := s.assign(someJob, a, 1, 1)
			failed := complete(1, index)
			failed.State, failed.Exit = taskstate.Failed, 1
			first, second := bytesOf(t, a.envelope(1, complete(1, index))), bytesOf(t, a.envelope(1, failed))
			if v := s.statuses.fromTopic("neighbour", first); v != p2p.Accept {
				t.Fatal(v)
			}
			for i := range between {
				if _, _, err := s.statuses.accept(bytesOf(t, a.envelope(2+i))); err != nil {
					t.Fatal(err)
				}
			}
			// A peer that passes it on may have seen it first: it is not held against the
			// messenger.
			if v := s.statuses.fromTopic("another", second); v != p2p.Ignore {
				t.Error("the second:", v)
			}
			// The coordinator decides by the first, whatever comes up the session.
			if b, err := s.statuses.open(a.id, second); err != nil || len(b.Statuses) != 1 || b.Statuses[0].State != taskstate.Complete {
				t.Error(b, err)
			}
			if got, _ := s.table.Get(taskstate.Task(someJob, 1, 1)); got.State != taskstate.Complete {
				t.Errorf("shown: %+v", got)
			}
			if st, _ := s.Stats(t.Context()); st.Counters["faults"] != 2 {
				t.Error(st.Counters)
			}
		})
	}
}

func TestAForgedSecondBatchIsNoFaultOfItsAuthor(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	a, b := s.newAuthor(), s.newAuthor()
	s.take(someJob, "job", s.self, 1)
	index := s.assign(someJob, a, 1, 1)
	if v := s.statuses.fromTopic("neighbour", bytesOf(t, a.envelope(1, running(1, index)))); v != p2p.Accept {
		t.Fatal(v)
	}
	forged := b.sealed(taskstate.Batch{Author: a.id, Incarnation: a.inc, Number: 1, Statuses: []taskstate.Status{complete(1, index)}}, 1)
	forged.Author, forged.Incarnation = a.id, string(a.inc)
	if v := s.statuses.fromTopic("neighbour", bytesOf(t, forged)); v != p2p.Reject {
		t.Error(v)
	}
	if n := s.statuses.faults.total(); n != 0 {
		t.Errorf("%d faults", n)
	}
}
