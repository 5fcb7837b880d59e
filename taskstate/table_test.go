package taskstate_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	. "github.com/coveyproject/covey/taskstate"
)

const (
	ann  PeerID = "peer-ann"
	bob  PeerID = "peer-bob"
	eve  PeerID = "peer-eve"
	life        = Incarnation("life-1")
)

// book is an Assignments in a test's hands: what was assigned at which index, and how far a replica
// has come.
type book struct {
	applied uint64
	rows    map[TaskID]row
}

type row struct {
	peer    PeerID
	inc     Incarnation
	index   uint64
	retired uint64 // index of the settlement, 0 if there is none
}

func (b *book) Applied() uint64 { return b.applied }

func (b *book) Assigned(t TaskID) (PeerID, Incarnation, uint64, LedgerView) {
	r, ok := b.rows[t]
	switch {
	case !ok || r.index > b.applied:
		return "", "", 0, Unknown
	case r.retired > 0 && r.retired <= b.applied:
		return r.peer, r.inc, r.index, Retired
	}
	return r.peer, r.inc, r.index, Known
}

func task(slot int) TaskID { return Task("k3v5q7x2ab", slot, 1) }

// oneTask is a replica at index 5 that knows task 1 to be Ann's, assigned at 5.
func oneTask() *book {
	return &book{applied: 5, rows: map[TaskID]row{task(1): {peer: ann, inc: life, index: 5}}}
}

func says(author PeerID, inc Incarnation, statuses ...Status) Batch {
	return Batch{Author: author, Incarnation: inc, Number: 1, Statuses: statuses}
}

func status(slot int, seq uint64, st State, index uint64) Status {
	return Status{Task: task(slot), Seq: seq, State: st, Index: index, At: int64(seq), Exit: NoExit}
}

func TestOnlyNewsComesOutOfAMerge(t *testing.T) {
	tab := NewTable(oneTask(), 0)
	running := status(1, 2, Running, 5)
	if news, refused := tab.Merge(says(ann, life, running)); len(news) != 1 || news[0] != running || refused != 0 {
		t.Fatalf("first: news %v, refused %d", news, refused)
	}
	if news, refused := tab.Merge(says(ann, life, running, status(1, 1, Accepted, 5))); len(news) != 0 || refused != 0 {
		t.Fatalf("repetition and an older one: news %v, refused %d", news, refused)
	}
	if got, ok := tab.Get(task(1)); !ok || got != running || tab.Len() != 1 {
		t.Fatalf("holds %v (%t), %d in all", got, ok, tab.Len())
	}
}

func TestNobodyButTheAssignedIncarnationChangesAnything(t *testing.T) {
	for name, b := range map[string]Batch{
		"another peer":        says(eve, life, status(1, 9, Failed, 5)),
		"another incarnation": says(ann, "life-2", status(1, 9, Failed, 5)),
		"an unknown task":     says(ann, life, status(2, 9, Failed, 5)),
	} {
		tab := NewTable(oneTask(), 0)
		tab.Merge(says(ann, life, status(1, 1, Running, 5)))
		news, refused := tab.Merge(b)
		got, _ := tab.Get(task(1))
		if len(news) != 0 || refused != 1 || got.State != Running || tab.Len() != 1 || tab.Parked() != 0 {
			t.Errorf("%s: news %v, refused %d, task 1 is %v, %d held, %d parked", name, news, refused, got.State, tab.Len(), tab.Parked())
		}
	}
}

func TestAStatusAheadOfTheLedgerWaitsForItsAssignment(t *testing.T) {
	b := oneTask()
	b.rows[task(2)] = row{peer: bob, inc: life, index: 8}
	tab := NewTable(b, 0)
	done := status(2, 3, Complete, 8)
	tab.Merge(says(bob, life, status(2, 2, Running, 8)))
	tab.Merge(says(bob, life, done))
	tab.Merge(says(eve, life, status(2, 1, Failed, 8)))
	if tab.Len() != 0 || tab.Parked() != 2 {
		t.Fatalf("held %d, parked %d before the assignment; want 0 and 2 (one per author)", tab.Len(), tab.Parked())
	}
	b.applied = 7
	if news := tab.Advance(); len(news) != 0 || tab.Parked() != 2 {
		t.Fatalf("one short of the assignment: news %v, %d parked", news, tab.Parked())
	}
	b.applied = 8
	if news := tab.Advance(); len(news) != 1 || news[0] != done || tab.Parked() != 0 {
		t.Fatalf("at the assignment: news %v, %d parked", news, tab.Parked())
	}
}

func TestARetiredTaskIsRefused(t *testing.T) {
	b := oneTask()
	tab := NewTable(b, 0)
	tab.Merge(says(ann, life, status(1, 1, Running, 5)))
	b.rows[task(1)] = row{peer: ann, inc: life, index: 5, retired: 6}
	b.applied = 6
	tab.Forget(task(1), task(77))
	if news, refused := tab.Merge(says(ann, life, status(1, 2, Complete, 5))); len(news) != 0 || refused != 1 || tab.Len() != 0 {
		t.Fatalf("news %v, refused %d, held %d", news, refused, tab.Len())
	}
}

func TestRetiringAndSweepingLeaveWhatIsOpen(t *testing.T) {
	b := oneTask()
	b.rows[task(2)] = row{peer: ann, inc: life, index: 5, retired: 6}
	b.rows[task(3)] = row{peer: ann, inc: life, index: 5, retired: 7}
	tab := NewTable(b, 0)
	tab.Merge(says(ann, life, status(1, 1, Running, 5), status(2, 1, Running, 5), status(3, 1, Running, 5)))
	b.applied = 6
	if tab.Retire(task(1), task(2), task(9)); tab.Len() != 2 {
		t.Errorf("%d held after one of two named was settled", tab.Len())
	}
	b.applied = 7
	tab.Sweep()
	if left := slices.Collect(tab.All()); len(left) != 1 || left[0].Task != task(1) || tab.Len() != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestForgettingAJobForgetsAllOfIt(t *testing.T) {
	b := oneTask()
	b.rows[Task("other", 1, 1)] = row{peer: ann, inc: life, index: 1}
	b.rows[task(2)] = row{peer: ann, inc: life, index: 1}
	tab := NewTable(b, 0)
	other := status(1, 1, Running, 1)
	other.Task.Job = "other"
	tab.Merge(says(ann, life, status(1, 1, Running, 5), status(2, 1, Running, 5), other))
	tab.ForgetJob("k3v5q7x2ab")
	if all := slices.Collect(tab.All()); len(all) != 1 || all[0] != other || tab.Len() != 1 {
		t.Fatalf("left: %v", all)
	}
}

func TestTheGreediestAuthorMakesRoomInAFullParking(t *testing.T) {
	b := &book{applied: 1, rows: map[TaskID]row{}}
	tab := NewTable(b, 10)
	b.rows[task(1)] = row{peer: bob, inc: life, index: 3}
	tab.Merge(says(bob, life, status(1, 1, Running, 3)))
	for slot := 2; slot < 500; slot++ {
		tab.Merge(says(eve, life, status(slot, 1, Running, 1<<60)))
		if tab.Parked() > 10 {
			t.Fatalf("%d parked, the limit is 10", tab.Parked())
		}
	}
	b.applied = 3
	if news := tab.Advance(); len(news) != 1 || news[0].Task != task(1) {
		t.Fatalf("Bob's status was crowded out: news %v", news)
	}
}

// What a full parking lost nobody sends again: the batches are here, as far as everybody knows. The
// table says when to merge them anew.
func TestATableTellsThatItLostParkedStatusesOnceThereIsRoom(t *testing.T) {
	b := &book{applied: 1, rows: map[TaskID]row{}}
	tab := NewTable(b, 3)
	var batches []Batch
	for i := range 6 {
		batches = append(batches, says(ann, life, status(i+1, 1, Running, 5)))
		tab.Merge(batches[i])
	}
	if tab.Spilled() {
		t.Fatal("said while there is no room yet")
	}
	b.applied = 5
	for i := range 6 {
		b.rows[task(i+1)] = row{peer: ann, inc: life, index: 5}
	}
	if n := len(tab.Advance()); n != 3 {
		t.Fatalf("%d statuses were parked, want 3", n)
	}
	if !tab.Spilled() || tab.Spilled() {
		t.Fatal("not said, or said twice")
	}
	for _, x := range batches {
		tab.Merge(x)
	}
	if tab.Len() != 6 {
		t.Fatalf("%d tasks in the table, want 6", tab.Len())
	}
}

// anyStatus draws a status of a task: few values each, so that ties and conflicts are common.
func anyStatus(r *rapid.T, t TaskID) Status {
	return Status{
		Task: t, Seq: rapid.Uint64Range(1, 4).Draw(r, "seq"), Index: 5,
		State: rapid.SampledFrom([]State{Accepted, Starting, Running, Complete, Failed, Orphaned}).Draw(r, "state"),
		At:    rapid.Int64Range(0, 2).Draw(r, "at"), Exit: rapid.IntRange(-1, 1).Draw(r, "exit"),
		Message: rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "message"),
	}
}

func TestTheJoinIsASemilattice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b, c := anyStatus(r, task(1)), anyStatus(r, task(1)), anyStatus(r, task(1))
		if Join(a, Join(b, c)) != Join(Join(a, b), c) {
			r.Fatalf("not associative: %v %v %v", a, b, c)
		}
		if Join(a, b) != Join(b, a) {
			r.Fatalf("not commutative: %v %v", a, b)
		}
		if Join(a, a) != a {
			r.Fatalf("not idempotent: %v", a)
		}
	})
}

func TestTheOrderOfStatusesIsTotal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b, c := anyStatus(r, task(1)), anyStatus(r, task(1)), anyStatus(r, task(1))
		if a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) {
			r.Fatalf("%v and %v compare %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			r.Fatalf("not transitive: %v %v %v", a, b, c)
		}
	})
}

func TestAnEndWinsOverEverythingElseAndTheFirstEndStands(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b := anyStatus(r, task(1)), anyStatus(r, task(1))
		j := Join(a, b)
		if (a.State.Final() || b.State.Final()) && !j.State.Final() {
			r.Fatalf("%v joined with %v is no end: %v", a, b, j)
		}
		if a.State.Final() && b.State.Final() && j.Seq != min(a.Seq, b.Seq) {
			r.Fatalf("of two ends %d and %d stands %d", a.Seq, b.Seq, j.Seq)
		}
	})
}

func TestATaskNeverGoesBackwards(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tab := NewTable(oneTask(), 0)
		var last Status
		for range rapid.IntRange(1, 20).Draw(r, "deliveries") {
			tab.Merge(says(ann, life, anyStatus(r, task(1))))
			now, _ := tab.Get(task(1))
			if last.State != New && now.Compare(last) < 0 {
				r.Fatalf("went from %v back to %v", last, now)
			}
			if last.State.Final() && !now.State.Final() {
				r.Fatalf("left its end: from %v to %v", last, now)
			}
			last = now
		}
	})
}

// TestTablesConvergeWhateverTheNetworkDid gives three tables the same worker's reports and a
// forger's, each shuffled, thinned and repeated in its own way while its replica moves on in its
// own way; then one exchange of everything.
func TestTablesConvergeWhateverTheNetworkDid(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rows := map[TaskID]row{}
		var batches []Batch
		want := map[TaskID]Status{}
		for slot := 1; slot <= rapid.IntRange(1, 5).Draw(r, "tasks"); slot++ {
			rows[task(slot)] = row{peer: ann, inc: life, index: uint64(slot)}
			for range rapid.IntRange(1, 4).Draw(r, "reports") {
				s := anyStatus(r, task(slot))
				s.Index = uint64(slot)
				batches = append(batches, says(ann, life, s))
				if old, ok := want[s.Task]; ok {
					s = Join(old, s)
				}
				want[s.Task] = s
			}
			batches = append(batches, says(eve, life, anyStatus(r, task(slot))), says(ann, "life-2", anyStatus(r, task(slot))))
		}
		for peer := range 3 {
			b := &book{rows: rows}
			tab := NewTable(b, 0)
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, len(batches)-1), 0, 30).Draw(r, fmt.Sprintf("deliveries at %d", peer)) {
				tab.Merge(batches[k])
				if rapid.Bool().Draw(r, "the replica moves on") {
					b.applied++
					tab.Advance()
				}
			}
			b.applied = 100
			tab.Advance()
			for _, k := range rapid.Permutation(indices(batches)).Draw(r, "exchange") {
				tab.Merge(batches[k])
			}
			got := map[TaskID]Status{}
			for s := range tab.All() {
				got[s.Task] = s
			}
			if !maps.Equal(got, want) || tab.Parked() != 0 {
				r.Fatalf("peer %d holds\n%v, want\n%v (%d parked)", peer, got, want, tab.Parked())
			}
		}
	})
}

func indices[T any](s []T) []int {
	out := make([]int, len(s))
	for i := range out {
		out[i] = i
	}
	return out
}

func TestTheNewsOfAllMergesIsWhatATableHolds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		from, to := NewTable(oneTask(), 0), NewTable(oneTask(), 0)
		for range rapid.IntRange(1, 10).Draw(r, "deliveries") {
			news, _ := from.Merge(says(ann, life, anyStatus(r, task(1)), anyStatus(r, task(1))))
			to.Merge(says(ann, life, news...))
		}
		a, _ := from.Get(task(1))
		b, _ := to.Get(task(1))
		if a != b {
			r.Fatalf("passing on only the news gave %v, not %v", b, a)
		}
	})
}
