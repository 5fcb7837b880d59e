package ledger_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

func running(id taskstate.JobID, slot, attempt int, index uint64) taskstate.Status {
	return taskstate.Status{Task: taskstate.Task(id, slot, attempt), Seq: 1, State: taskstate.Running, Index: index, Exit: taskstate.NoExit}
}

func batch(author string, s ...taskstate.Status) taskstate.Batch {
	return taskstate.Batch{Author: author, Incarnation: "i1", Number: 1, Statuses: s}
}

func TestATableThatIsKeptHoldsWhatIsOpenAndNothingElse(t *testing.T) {
	m := memledger.New("p1", clock())
	m.Join("p1", "i1")
	m.Join("p2", "i1")
	tab := taskstate.NewTable(m.Replica(), 0)
	var late []taskstate.Status
	stop := m.Replica().Observe(func(ev ledger.Event) { late = append(late, ledger.KeepUp(tab, ev)...) })
	defer stop()
	propose(t, m, submit("j", 5))
	ahead := m.Replica().Applied() + 1
	for slot := 1; slot <= 5; slot++ {
		tab.Merge(batch("p2", running("j", slot, 1, ahead)))
	}
	holds := func(want int, why string) {
		t.Helper()
		if tab.Len() != want || tab.Parked() != 0 {
			t.Errorf("%s: %d held, %d parked, want %d and none", why, tab.Len(), tab.Parked(), want)
		}
	}
	propose(t, m, assign("j", "p2", run(1, 5, 1)))
	if holds(5, "assigned"); len(late) != 5 {
		t.Errorf("%d of 5 parked statuses were told of", len(late))
	}
	propose(t, m, settle("p2", ended("j", 1, taskstate.Complete)))
	holds(4, "one settled")
	propose(t, m, supersede(taskstate.Task("j", 2, 1), true))
	holds(3, "one superseded")
	if _, _, err := m.Propose(t.Context(), []ledger.Command{settle("p1", ended("j", 3, taskstate.Complete))}); err != nil {
		t.Fatal(err)
	}
	holds(3, "a settlement by another was refused")
	propose(t, m, ledger.Command{Remove: &ledger.Remove{Peer: "p2"}})
	holds(0, "their peer was removed")
}

func TestAResetSweepsTheTable(t *testing.T) {
	m := memledger.New("p1", clock())
	m.Join("p1", "i1")
	tab := taskstate.NewTable(m.Replica(), 0)
	defer m.Replica().Observe(func(ev ledger.Event) { ledger.KeepUp(tab, ev) })()
	propose(t, m, submit("j", 2))
	index := propose(t, m, assign("j", "p1", run(1, 2, 1)))
	tab.Merge(batch("p1", running("j", 1, 1, index), running("j", 2, 1, index)))
	m.Replica().Reset(ledger.NewState())
	if tab.Len() != 0 {
		t.Errorf("%d held of a ledger that knows nothing", tab.Len())
	}
}

func TestAnEndedJobIsToldOfOnce(t *testing.T) {
	m := memledger.New("p1", clock())
	told := map[taskstate.JobID]int{}
	defer m.Replica().Observe(func(ev ledger.Event) {
		if peer, _, ok := m.Coordinator(); !ok || peer != "p1" {
			t.Errorf("an observer sees coordinator %q", peer)
		}
		for _, id := range ev.Ended {
			told[id]++
		}
	})()
	m.Join("p1", "i1")
	propose(t, m, submit("a", 2), submit("b", 1), submit("c", 1), cancel("b"))
	propose(t, m, assign("a", "p1", run(1, 2, 1)))
	propose(t, m, settle("p1", ended("a", 2, taskstate.Complete)))
	propose(t, m, settle("p1", ended("a", 1, taskstate.Complete)))
	if got := fmt.Sprint(told); got != "map[a:1 b:1]" {
		t.Errorf("told %v", got)
	}
}

// TestEveryPeerHoldsTheSameTableInTheEnd runs peers at different distances from the log, each with
// its own table, and one worker's statuses that reach them at different times; then all catch up
// and hear everything once more.
func TestEveryPeerHoldsTheSameTableInTheEnd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := memledger.New("p1", clock())
		m.Join("w", "i1")
		views := []*memledger.Ledger{m, m.Peer("p2"), m.Peer("p3")}
		var tables []*taskstate.Table
		for _, v := range views {
			tab := taskstate.NewTable(v.Replica(), 0)
			tables = append(tables, tab)
			defer v.Replica().Observe(func(ev ledger.Event) { ledger.KeepUp(tab, ev) })()
		}
		var said []taskstate.Batch
		do := func(c ledger.Command) uint64 {
			index, _, err := m.Propose(t.Context(), []ledger.Command{c})
			if err != nil {
				r.Fatal(err)
			}
			return index
		}
		do(submit("j", 6))
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			slot, attempt := rapid.IntRange(1, 6).Draw(r, "slot"), rapid.IntRange(1, 2).Draw(r, "attempt")
			switch rapid.SampledFrom([]string{"assign", "say", "settle", "again", "lag", "hear"}).Draw(r, "step") {
			case "assign":
				do(assign("j", "w", run(slot, rapid.IntRange(1, 6).Draw(r, "n"), attempt)))
			case "say":
				_, _, index, _ := m.Replica().Assigned(taskstate.Task("j", slot, attempt))
				said = append(said, batch("w", running("j", slot, attempt, index)))
			case "settle":
				do(settle("w", ended("j", slot, taskstate.Complete)))
			case "again":
				do(supersede(taskstate.Task("j", slot, attempt), true))
			case "lag":
				views[rapid.IntRange(1, 2).Draw(r, "view")].SetLag(rapid.IntRange(0, 4).Draw(r, "lag"))
			case "hear":
				if len(said) > 0 {
					tables[rapid.IntRange(0, 2).Draw(r, "table")].Merge(said[rapid.IntRange(0, len(said)-1).Draw(r, "batch")])
				}
			}
		}
		for i, v := range views {
			v.SetLag(0)
			for _, b := range said {
				tables[i].Merge(b)
			}
		}
		for i := range tables {
			if got, want := holdings(tables[i]), holdings(tables[0]); got != want || tables[i].Parked() != 0 {
				r.Fatalf("table %d holds %s and parks %d, table 0 holds %s", i, got, tables[i].Parked(), want)
			}
		}
	})
}

func holdings(t *taskstate.Table) string {
	all := map[string]taskstate.State{}
	for s := range t.All() {
		all[s.Task.String()] = s.State
	}
	return fmt.Sprint(all)
}

func TestAnEndThatIsNoStateIsRefused(t *testing.T) {
	l := newLog(t)
	l.must(submit("j", 2), assign("j", "p2", run(1, 2, 1)))
	l.refuses(ledger.CodePartly, settle("p2", ended("j", 1, taskstate.Complete+1)))
	strange := ended("j", 2, taskstate.Complete+1)
	l.must(ledger.Command{Supersede: &ledger.Supersede{Task: strange.Task, Status: &strange}})
	if st := l.record("j").Slot(2).Final.State; st != taskstate.Orphaned {
		t.Errorf("a strange end became %v", st)
	}
}

func TestTheLastVoterKeepsItsVote(t *testing.T) {
	l := newLog(t)
	lesser := ledger.Command{Admit: &ledger.Admit{Entry: entryFor("p1", admission.Worker)}}
	l.refuses(ledger.CodeSole, lesser)
	l.must(admit("p3", ""), lesser)
}
