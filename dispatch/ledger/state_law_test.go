package ledger_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"covey/dispatch/ledger"
	"covey/p2p/admission"
	"covey/taskstate"
)

// anyCommand draws a command over few peers, incarnations, jobs and slots, so that commands meet each other.
func anyCommand(r *rapid.T) ledger.Command {
	peer := rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(r, "peer")
	inc := rapid.SampledFrom([]taskstate.Incarnation{"i1", "i1", "i1", "i2"}).Draw(r, "inc")
	job := rapid.SampledFrom([]taskstate.JobID{"j1", "j2", "j3", "j3"}).Draw(r, "job")
	attempt := rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3}).Draw(r, "attempt")
	first, n := rapid.IntRange(-1, 13).Draw(r, "first"), rapid.IntRange(0, 13).Draw(r, "n")
	switch rapid.SampledFrom([]string{
		"admit", "register", "depart", "remove", "submit", "cancel", "assign", "assign", "assign", "settle", "settle", "supersede", "supersede",
	}).Draw(r, "command") {
	case "admit":
		return ledger.Command{Admit: &ledger.Admit{Entry: entryFor(peer, admission.Worker)}}
	case "register":
		return ledger.Command{Register: &ledger.Register{Peer: peer, Incarnation: inc}}
	case "depart":
		return ledger.Command{Depart: &ledger.Depart{Peer: peer}}
	case "remove":
		return ledger.Command{Remove: &ledger.Remove{Peer: peer}}
	case "submit":
		return someJob(job)
	case "cancel":
		return ledger.Command{Cancel: &ledger.Cancel{Job: job, Reason: "enough"}}
	case "assign":
		a := &ledger.Assign{Job: job, Peer: peer, Incarnation: inc, Slots: []ledger.Slots{run(first, n, attempt)}}
		if rapid.Bool().Draw(r, "two runs") {
			a.Slots = append(a.Slots, run(rapid.IntRange(1, 12).Draw(r, "second"), 2, 2))
		}
		return ledger.Command{Assign: a}
	case "settle":
		s := &ledger.Settle{Peer: peer, Incarnation: inc}
		st := taskstate.Status{
			Seq: rapid.Uint64Range(1, 3).Draw(r, "seq"), At: rapid.Int64Range(1, 9).Draw(r, "at"), Message: rapid.StringMatching(`[a-c]?`).Draw(r, "message"),
			State: rapid.SampledFrom([]taskstate.State{taskstate.Running, taskstate.Complete, taskstate.Complete, taskstate.Failed, taskstate.Shutdown, taskstate.Rejected}).Draw(r, "state"),
		}
		for slot := first; slot < first+n/2; slot++ {
			st.Task = taskstate.Task(job, slot, attempt)
			s.Statuses = append(s.Statuses, st)
		}
		return ledger.Command{Settle: s}
	}
	return ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(job, first, attempt), Reason: taskstate.ReasonUnreachable, Again: rapid.Bool().Draw(r, "again")}}
}

// someJob is one of three jobs; the tasks of j2 must not run twice.
func someJob(id taskstate.JobID) ledger.Command {
	c := submit(id, map[taskstate.JobID]int{"j1": 1, "j2": 5, "j3": 12}[id])
	c.Submit.Job.Unreachable.Wait = id == "j2"
	return c
}

// anyHistory begins with all peers registered and two of the jobs there, and draws the rest.
func anyHistory(r *rapid.T) []ledger.Entry {
	var cmds [][]ledger.Command
	for _, p := range []string{"p1", "p2", "p3"} {
		cmds = append(cmds, []ledger.Command{
			{Admit: &ledger.Admit{Entry: entryFor(p, admission.Worker)}}, {Register: &ledger.Register{Peer: p, Incarnation: "i1"}},
		})
	}
	cmds = append(cmds, []ledger.Command{someJob("j2"), someJob("j3")})
	cmds = append(cmds, rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(anyCommand), 1, 3), 10, 60).Draw(r, "entries")...)
	var out []ledger.Entry
	for i, c := range cmds {
		out = append(out, ledger.Entry{
			Index: uint64(i + 1), Epoch: taskstate.At(1, uint64(1+i/10)-uint64(rapid.IntRange(0, 9).Draw(r, "term"))/9),
			Stamp: 1000 + rapid.Int64Range(0, 50).Draw(r, "stamp"), By: "p1", Commands: c,
		})
	}
	return out
}

func TestTheStateDoesWhatItsDumbTwinDoes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		st, twin := ledger.NewState(), newDumb()
		for _, e := range anyHistory(r) {
			st.Apply(e)
			twin.apply(e)
			if got, want := show(st), twin.show(); got != want {
				r.Fatalf("after entry %d %+v:\n%s\nthe twin says:\n%s", e.Index, e, got, want)
			}
		}
	})
}

func TestCountsAndRunsAgreeWithTheSlots(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		st := ledger.NewState()
		for _, e := range anyHistory(r) {
			before := ends(st)
			st.Apply(e)
			for id, at := range before {
				if now := ends(st)[id]; at != 0 && now != at {
					r.Fatalf("job %s ended at %d, then at %d", id, at, now)
				}
			}
			for j := range st.Jobs() {
				checkJob(r, j)
			}
		}
	})
}

func TestSlotsThatComeBackFormTheLongestRuns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const n = 30
		l := newLog(t)
		l.must(submit("j", n), assign("j", "p2", run(1, n, 1)))
		slots := make([]int, n)
		for i := range slots {
			slots[i] = i + 1
		}
		for _, slot := range rapid.Permutation(slots).Draw(r, "order") {
			l.must(supersede(taskstate.Task("j", slot, 1), true))
			checkJob(r, l.record("j"))
		}
	})
}

func ends(s *ledger.State) map[taskstate.JobID]int64 {
	out := map[taskstate.JobID]int64{}
	for j := range s.Jobs() {
		out[j.Job().ID], _ = j.Ended()
	}
	return out
}

func checkJob(r *rapid.T, j *ledger.JobRecord) {
	var want ledger.Counts
	var pending, open []int
	for n := 1; n <= j.Job().Count; n++ {
		s := j.Slot(n)
		switch {
		case s.Open:
			want.Open++
			open = append(open, n)
		case s.Pending():
			want.Pending++
			pending = append(pending, n)
		default:
			countEnd(&want, s.Final.State)
		}
	}
	if got := j.Counts(); got != want {
		r.Fatalf("job %s counts %+v, its slots %+v", j.Job().ID, got, want)
	}
	var runs, opened []int
	last := ledger.Slots{First: -1}
	for x := range j.PendingSlots() {
		if x.N < 1 || x.First < last.First+last.N || x.First == last.First+last.N && x.Attempt == last.Attempt {
			r.Fatalf("run %v follows %v", x, last)
		}
		for n := x.First; n < x.First+x.N; n++ {
			runs = append(runs, n)
			if j.Slot(n).Attempt != x.Attempt {
				r.Fatalf("slot %d waits in attempt %d, its run says %v", n, j.Slot(n).Attempt, x)
			}
		}
		last = x
	}
	for s := range j.OpenSlots() {
		opened = append(opened, s.Slot)
	}
	if !slices.Equal(runs, pending) || !slices.Equal(opened, open) {
		r.Fatalf("pending %v in runs, %v in slots; open %v and %v", runs, pending, opened, open)
	}
	if _, over := j.Ended(); over != (want.Pending+want.Open == 0) || over != j.State().Final() {
		r.Fatalf("over is %t, state %v, counts %+v", over, j.State(), want)
	}
}

func countEnd(c *ledger.Counts, st taskstate.State) {
	switch st {
	case taskstate.Complete:
		c.Complete++
	case taskstate.Failed:
		c.Failed++
	case taskstate.Rejected:
		c.Rejected++
	case taskstate.Shutdown:
		c.Shutdown++
	case taskstate.Orphaned:
		c.Orphaned++
	}
}

// TestASnapshotChangesNothing goes through one history twice: once as it is, once with the state replaced by its own snapshot now
// and then.
func TestASnapshotChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		plain, other := ledger.NewState(), ledger.NewState()
		for _, e := range anyHistory(r) {
			a, b := plain.Apply(e), other.Apply(e)
			if !reflect.DeepEqual(a, b) || show(plain) != show(other) {
				r.Fatalf("after entry %d:\n%s\n%v\nwith snapshots:\n%s\n%v", e.Index, show(plain), a, show(other), b)
			}
			x, y := encode(r, plain), encode(r, other)
			if !bytes.Equal(x, y) {
				r.Fatal("equal states have different snapshots")
			}
			if !rapid.Bool().Draw(r, "through a snapshot") {
				continue
			}
			back, err := ledger.DecodeState(y)
			if err != nil {
				r.Fatal(err)
			}
			other = back
		}
	})
}

func encode(t interface{ Fatal(...any) }, s *ledger.State) []byte {
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
