package taskstate_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// sealOf signs as tests do: it protects nothing.
func sealOf(by string) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		sum := sha256.Sum256(append([]byte(by+":"), b...))
		return sum[:], nil
	}
}

func unseal(by string, data, sig []byte) error {
	if want, _ := sealOf(by)(data); !bytes.Equal(want, sig) {
		return errors.New("the signature is not " + by + "'s")
	}
	return nil
}

const signedAt = 1_700_000_000_000

func signed(t rapid.TB, j taskstate.Job) taskstate.Job {
	t.Helper()
	if err := taskstate.SignOrder(&j, "cluster", "finch", signedAt, nil, sealOf("finch")); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestAnOrderCoversEveryFieldOfItsJobButThoseOfTheLedger(t *testing.T) {
	for name, c := range fieldCases() {
		j := signed(t, *web())
		if err := taskstate.CheckOrder(&j, "cluster", signedAt, unseal); err != nil {
			t.Fatalf("as it was signed: %v", err)
		}
		order := j.Order
		c.change(&j)
		j.Order = order
		err := taskstate.CheckOrder(&j, "cluster", signedAt, unseal)
		switch name {
		case "Version", "Origin", "Order":
			if err != nil {
				t.Errorf("Job.%s is set by the ledger, and breaks the order: %v", name, err)
			}
		default:
			if !errors.Is(err, taskstate.ErrOrderForged) {
				t.Errorf("Job.%s was changed after it was signed: %v", name, err)
			}
		}
	}
}

// attack (b), as far as the order itself tells: another cluster, another id, after its time, a slot
// too many.
func TestAnOrderCountsForItsJobInItsClusterUntilItExpires(t *testing.T) {
	j := signed(t, *web())
	until := j.Order.Until
	if got := time.Duration(until-signedAt) * time.Millisecond; got != taskstate.LastingOrder {
		t.Errorf("the order of a service is good for %v", got)
	}
	refused := func(what string, want error, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("in another cluster", taskstate.ErrOrderForged, taskstate.CheckOrder(&j, "elsewhere", signedAt, unseal))
	refused("a moment too late", taskstate.ErrOrderExpired, taskstate.CheckOrder(&j, "cluster", until+1, unseal))
	if err := taskstate.CheckOrder(&j, "cluster", until, unseal); err != nil {
		t.Error("in the last moment:", err)
	}
	late := j
	o := *j.Order
	o.Until++
	late.Order = &o
	refused("with its time made longer", taskstate.ErrOrderForged, taskstate.CheckOrder(&late, "cluster", signedAt, unseal))
	other := o
	other.Until, other.By = until, "wren"
	late.Order = &other
	refused("in another's name", taskstate.ErrOrderForged, taskstate.CheckOrder(&late, "cluster", signedAt, unseal))
	late.Order = nil
	refused("without", taskstate.ErrNoOrder, taskstate.CheckOrder(&late, "cluster", signedAt, unseal))

	l := taskstate.Launch{Task: taskstate.Task(j.ID, j.Count+1, 1), Job: &j}
	if err := l.CheckOrder("cluster", signedAt, unseal); err != nil {
		t.Error("a service, while an update starts before it stops:", err)
	}
	batch := *web()
	batch.Type, batch.Update = taskstate.BatchJob, nil
	batch = signed(t, batch)
	l = taskstate.Launch{Task: taskstate.Task(batch.ID, batch.Count, 1), Job: &batch}
	if err := l.CheckOrder("cluster", signedAt, unseal); err != nil {
		t.Error("its last slot:", err)
	}
	l.Task.Slot++
	refused("a slot too many", taskstate.ErrOrderForged, l.CheckOrder("cluster", signedAt, unseal))
	l.Task = taskstate.Task("another", 1, 1)
	refused("for a task of another job", taskstate.ErrOrderForged, l.CheckOrder("cluster", signedAt, unseal))
}

func TestTheTasksOfAJobCostOneLookAtItsSignature(t *testing.T) {
	j := signed(t, *web())
	forged := j
	forged.Run = taskstate.Run{Noop: &taskstate.Noop{}}
	looks := 0
	verify := func(by string, data, sig []byte) error { looks++; return unseal(by, data, sig) }
	var memo taskstate.OrderMemo
	for slot := 1; slot <= j.Count; slot++ {
		l := taskstate.Launch{Task: taskstate.Task(j.ID, slot, 1), Job: &j}
		if err := memo.Check(&l, "cluster", signedAt, verify); err != nil {
			t.Fatal(err)
		}
		if err := memo.Check(&l, "elsewhere", signedAt, verify); !errors.Is(err, taskstate.ErrOrderForged) {
			t.Fatalf("in another cluster: %v", err)
		}
		l.Job = &forged
		if err := memo.Check(&l, "cluster", signedAt, verify); !errors.Is(err, taskstate.ErrOrderForged) {
			t.Fatalf("another body under the same id: %v", err)
		}
	}
	l := taskstate.Launch{Task: taskstate.Task(j.ID, 1, 1), Job: &j}
	looks = 0
	for range 10 {
		if err := memo.Check(&l, "cluster", signedAt, verify); err != nil {
			t.Fatal(err)
		}
	}
	if looks > 1 {
		t.Errorf("it was looked at %d times", looks)
	}
	if err := memo.Check(&l, "cluster", j.Order.Until+1, verify); !errors.Is(err, taskstate.ErrOrderExpired) {
		t.Errorf("a known order goes on to count after its time: %v", err)
	}
}

func TestARunOfAScheduleIsCheckedAgainstItsSchedulesOrder(t *testing.T) {
	parent := *web()
	parent.Type, parent.Schedule, parent.After = taskstate.BatchJob, &taskstate.Schedule{Cron: "0 3 * * *"}, []taskstate.JobID{"setup"}
	parent = signed(t, parent)
	run := parent.RunAt(signedAt + 5000)
	check := func(what string, want error, change func(*taskstate.Job)) {
		t.Helper()
		j := run
		o, starts, origin := *run.Order, *run.Order.Starts, *run.Origin
		o.Starts, j.Order, j.Origin = &starts, &o, &origin
		change(&j)
		if err := taskstate.CheckOrder(&j, "cluster", signedAt+5000, unseal); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("the run", nil, func(*taskstate.Job) {})
	check("another id", taskstate.ErrOrderForged, func(j *taskstate.Job) { j.ID = "mine" })
	check("another moment under the same id", taskstate.ErrOrderForged, func(j *taskstate.Job) { j.Origin.At++ })
	check("another schedule", taskstate.ErrOrderForged, func(j *taskstate.Job) { j.Order.Starts.Schedule.Cron = "* * * * *" })
	check("another command", taskstate.ErrOrderForged, func(j *taskstate.Job) { j.Run.Process = &taskstate.Process{Command: []string{"evil"}} })
	check("without what it has of the schedule", taskstate.ErrOrderForged, func(j *taskstate.Job) { j.Order.Starts = nil })
	if err := taskstate.CheckOrder(&run, "cluster", parent.Order.Until+1, unseal); err == nil || !strings.Contains(err.Error(), "peer renew "+string(parent.ID)) {
		t.Errorf("after its time it should say which job to renew: %v", err)
	}
	// A job that was never to be started by a clock starts nothing.
	batch := *web()
	batch.Type = taskstate.BatchJob
	batch = signed(t, batch)
	batch.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
	forged := batch.RunAt(signedAt)
	if err := taskstate.CheckOrder(&forged, "cluster", signedAt, unseal); !errors.Is(err, taskstate.ErrOrderForged) {
		t.Errorf("a run of a job without a schedule: %v", err)
	}
}

func TestAnOrderFitsAnotherJobOnlyIfThatIsTheSame(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b := anySpec(r), anySpec(r)
		was := signed(r, *a)
		if err := taskstate.CheckOrder(&was, "cluster", signedAt, unseal); err != nil {
			r.Fatal(err)
		}
		x, _ := wire.Marshal(a)
		y, _ := wire.Marshal(b)
		b.Order = was.Order
		if err := taskstate.CheckOrder(b, "cluster", signedAt, unseal); (err == nil) != bytes.Equal(x, y) {
			r.Fatalf("the jobs are the same: %t, and: %v", bytes.Equal(x, y), err)
		}
		back, err := wire.Marshal(was)
		if err != nil {
			r.Fatal(err)
		}
		var read taskstate.Job
		if err := wire.Unmarshal(back, &read); err != nil {
			r.Fatal(err)
		}
		if err := taskstate.CheckOrder(&read, "cluster", signedAt, unseal); err != nil {
			r.Fatal("after a way through bytes:", err)
		}
		if !bytes.Equal(read.Order.Digest(), was.Order.Digest()) {
			r.Fatal("its digest is another one then")
		}
	})
}

func TestItemsAreProvenByTheRootOfAll(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		each := rapid.SliceOfN(rapid.StringN(0, 5, -1), 1, 100).Draw(r, "items")
		tree := taskstate.NewItemTree(each)
		root := tree.Root()
		var slots []int
		for n := range each {
			if rapid.Bool().Draw(r, "taken") {
				slots = append(slots, n+1)
			}
		}
		if len(slots) == 0 {
			slots = []int{1}
		}
		var items []string
		for _, n := range slots {
			items = append(items, each[n-1])
		}
		proof := tree.Prove(slots)
		if err := taskstate.CheckItems(root, len(each), slots, items, proof); err != nil {
			r.Fatalf("%d of %d: %v", len(slots), len(each), err)
		}
		refused := func(what string, count int, slots []int, items []string, proof [][]byte) {
			if taskstate.CheckItems(root, count, slots, items, proof) == nil {
				r.Fatalf("%s is believed", what)
			}
		}
		k := rapid.IntRange(0, len(slots)-1).Draw(r, "changed")
		bad := slices.Clone(items)
		bad[k] += "x"
		refused("another item", len(each), slots, bad, proof)
		if to := rapid.IntRange(1, len(each)).Draw(r, "moved to"); each[to-1] != items[k] && !slices.Contains(slots, to) {
			moved := slices.Clone(slots)
			moved[k] = to
			if slices.IsSorted(moved) {
				refused("an item of another slot", len(each), moved, items, tree.Prove(moved))
			}
		}
		refused("a proof with more than that", len(each), slots, items, append(slices.Clone(proof), root))
		if len(proof) > 0 {
			refused("a proof with less than that", len(each), slots, items, proof[1:])
			p := slices.Clone(proof)
			p[0] = slices.Clone(p[0])
			p[0][0]++
			refused("another proof", len(each), slots, items, p)
		}
		refused("a slot above all", len(each), []int{len(each) + 1}, items[:1], proof)
		refused("nothing", len(each), nil, nil, proof)
	})
}

// Any tree is the one that is made of all its items at once.
func TestTheRootOfItemsIsThatOfTheirHalves(t *testing.T) {
	hash := func(b ...[]byte) []byte { s := sha256.Sum256(bytes.Join(b, nil)); return s[:] }
	var root func(each []string) []byte
	root = func(each []string) []byte {
		if len(each) == 1 {
			return hash([]byte{0}, []byte(each[0]))
		}
		half := 1
		for half*2 < len(each) {
			half *= 2
		}
		return hash([]byte{1}, root(each[:half]), root(each[half:]))
	}
	for n := 1; n < 100; n++ {
		var each []string
		for i := range n {
			each = append(each, fmt.Sprint("item ", i))
		}
		if got := taskstate.NewItemTree(each).Root(); !bytes.Equal(got, root(each)) {
			t.Fatalf("of %d items", n)
		}
	}
	if taskstate.NewItemTree(nil).Root() != nil {
		t.Error("nothing has a root")
	}
}

// FuzzOrder: whatever comes as a job is read or refused, and nothing that nobody signed is
// believed.
func FuzzOrder(f *testing.F) {
	whole := *web()
	whole.Type, whole.Each, whole.Count = taskstate.BatchJob, []string{"a", "b"}, 2
	whole = signed(f, whole)
	run := *web()
	run.Schedule = &taskstate.Schedule{Cron: "0 3 * * *"}
	run = signed(f, run)
	for _, j := range []taskstate.Job{whole, run, run.RunAt(signedAt)} {
		b, err := wire.Marshal(j)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var j taskstate.Job
		if wire.Unmarshal(b, &j) != nil {
			return
		}
		never := func(string, []byte, []byte) error { return errors.New("nobody signed this") }
		if err := taskstate.CheckOrder(&j, "cluster", signedAt, never); err == nil {
			t.Fatal("it is believed")
		}
		l := taskstate.Launch{Task: taskstate.Task(j.ID, 1, 1), Job: &j}
		if err := l.CheckOrder("cluster", signedAt, never); err == nil {
			t.Fatal("it is believed by who runs it")
		}
		if o := j.Order; o != nil {
			again := *o
			if !reflect.DeepEqual(again.Digest(), o.Digest()) || !bytes.Equal(o.Digest(), again.Digest()) {
				t.Fatal("an order has two digests")
			}
			_ = taskstate.CheckItems(o.Items, j.Count, []int{1}, []string{"a"}, [][]byte{o.Follows, o.Body, o.Sig})
		}
	})
}

func BenchmarkCheckItems(b *testing.B) {
	var each []string
	for i := range 10_000 {
		each = append(each, fmt.Sprintf("/data/frames/%06d.png", i))
	}
	tree := taskstate.NewItemTree(each)
	var slots []int
	for n := 101; n <= 116; n++ {
		slots = append(slots, n)
	}
	root, proof := tree.Root(), tree.Prove(slots)
	for b.Loop() {
		if err := taskstate.CheckItems(root, len(each), slots, each[100:116], proof); err != nil {
			b.Fatal(err)
		}
	}
}
