package ledger_test

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

var _ taskstate.Assignments = (*ledger.Replica)(nil)

func entry(index uint64, c ...ledger.Command) ledger.Entry {
	return ledger.Entry{Index: index, Epoch: taskstate.At(1, 1), Stamp: int64(index), By: "p1", Commands: c}
}

func TestAnEntryIsAppliedOnce(t *testing.T) {
	r := ledger.NewReplica()
	if got := r.Apply(entry(3, submit("j", 1))); len(got) != 1 || got[0].Refused != "" {
		t.Fatalf("first: %+v", got)
	}
	for _, index := range []uint64{3, 2} {
		if got := r.Apply(entry(index, submit("j", 1))); got != nil {
			t.Errorf("entry %d again: %+v", index, got)
		}
	}
	if r.Applied() != 3 {
		t.Errorf("applied %d", r.Applied())
	}
}

func TestObserversHearEveryStepInOrderAndMayRead(t *testing.T) {
	r := ledger.NewReplica()
	var heard []uint64
	resets := 0
	cancelled := r.Observe(func(ledger.Event) { t.Error("called after cancel") })
	cancelled()
	stop := r.Observe(func(ev ledger.Event) {
		if ev.Reset {
			resets++
			return
		}
		r.Read(func(s *ledger.State) {
			if s.Index() != ev.Entry.Index || len(ev.Results) != len(ev.Entry.Commands) {
				t.Errorf("told of entry %d at index %d with %d results", ev.Entry.Index, s.Index(), len(ev.Results))
			}
		})
		heard = append(heard, ev.Entry.Index)
	})
	r.Apply(entry(1, submit("j", 1)))
	r.Apply(entry(1, submit("j", 1)))
	r.Apply(entry(2, cancel("j")))
	r.Reset(ledger.NewState())
	stop()
	r.Apply(entry(1, submit("j", 1)))
	if len(heard) != 2 || heard[0] != 1 || heard[1] != 2 || resets != 1 {
		t.Errorf("heard %v and %d resets", heard, resets)
	}
}

func TestAReplicaTellsATableWhatItKnowsOfATask(t *testing.T) {
	r := ledger.NewReplica()
	r.Reset(rich(t).State)
	at := r.Applied()
	for task, want := range map[taskstate.TaskID]taskstate.LedgerView{
		taskstate.Task("open", 300, 1):  taskstate.Known,
		taskstate.Task("open", 301, 1):  taskstate.Retired, // superseded
		taskstate.Task("open", 301, 2):  taskstate.Unknown, // waits
		taskstate.Task("open", 1, 1):    taskstate.Unknown, // never assigned
		taskstate.Task("open", 1001, 1): taskstate.Unknown, // no such slot
		taskstate.Task("done", 1, 1):    taskstate.Retired, // settled
		taskstate.Task("cut", 1, 1):     taskstate.Retired, // cancelled while it waited
		taskstate.Task("cut", 600, 1):   taskstate.Known,   // cancelled, but its worker has not said so
		taskstate.Task("nope", 1, 1):    taskstate.Unknown,
	} {
		peer, inc, index, st := r.Assigned(task)
		if st != want || st == taskstate.Known && (peer != "p1" || inc != "i1" || index == 0 || index > at) {
			t.Errorf("%v is %v (%s/%s at %d), want %v", task, st, peer, inc, index, want)
		}
	}
}

func TestATableFollowsItsReplica(t *testing.T) {
	m := memledger.New("p1", clock())
	m.Join("p2", "i1")
	far := m.Peer("p3")
	far.SetLag(1)
	tab := taskstate.NewTable(far.Replica(), 0)
	propose(t, m, submit("j", 1))
	index := propose(t, m, assign("j", "p2", run(1, 1, 1)))
	b := taskstate.Batch{Author: "p2", Incarnation: "i1", Number: 1, Statuses: []taskstate.Status{
		{Task: taskstate.Task("j", 1, 1), Seq: 1, State: taskstate.Running, Index: index},
	}}
	if news, refused := tab.Merge(b); len(news) != 0 || refused != 0 || tab.Parked() != 1 {
		t.Fatalf("ahead of the replica: news %v, refused %d, parked %d", news, refused, tab.Parked())
	}
	far.SetLag(0)
	if news := tab.Advance(); len(news) != 1 {
		t.Fatalf("the replica caught up: news %v", news)
	}
	propose(t, m, settle("p2", ended("j", 1, taskstate.Complete)))
	if _, refused := tab.Merge(b); refused != 1 {
		t.Error("a status of a settled task was let in")
	}
}
