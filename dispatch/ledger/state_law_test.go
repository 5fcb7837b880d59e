package ledger_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// anyCommand draws a command over few peers, incarnations, jobs and slots, so that commands meet
// each other.
func anyCommand(r *rapid.T) ledger.Command {
	peer := rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(r, "peer")
	inc := rapid.SampledFrom([]taskstate.Incarnation{"i1", "i1", "i1", "i2"}).Draw(r, "inc")
	job := rapid.SampledFrom(jobIDs()).Draw(r, "job")
	attempt := rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3}).Draw(r, "attempt")
	first, n := rapid.IntRange(-1, 13).Draw(r, "first"), rapid.IntRange(0, 13).Draw(r, "n")
	switch rapid.SampledFrom([]string{
		"admit", "register", "depart", "remove", "submit", "cancel", "assign", "assign", "assign", "settle", "settle", "supersede", "supersede", "kept",
		"lasting", "lasting", "lasting",
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
	case "lasting":
		return anyLasting(r, peer, job, []ledger.Slots{run(first, n/2, attempt-1)})
	case "kept":
		return anyKept(r, job, []ledger.Slots{run(first, n/2, attempt)})
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
			Saved: anySaved(r),
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

// anySaved draws what an end says is kept, often nothing.
func anySaved(r *rapid.T) *taskstate.Saved {
	switch rapid.IntRange(0, 3).Draw(r, "kept") {
	case 0:
		return nil
	case 1: // the same each time, so that it meets itself
		return &taskstate.Saved{Root: piece.Root{7}, Bytes: 9, Files: 1, Keepers: []taskstate.PeerID{"p1", "p2"}, Keep: 2}
	}
	s := &taskstate.Saved{
		Bytes: rapid.Int64Range(0, 1<<40).Draw(r, "kept bytes"), Files: rapid.IntRange(0, 9).Draw(r, "kept files"),
		Keepers: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p1", "p2", "p3", "gone"}), 0, 3, rapid.ID).Draw(r, "keepers"),
		Keep:    rapid.IntRange(0, 3).Draw(r, "keep"), Why: rapid.SampledFrom([]string{"", "nobody else is here"}).Draw(r, "why"),
	}
	s.Root[0], s.Logs[0] = rapid.ByteRange(0, 2).Draw(r, "root"), rapid.ByteRange(0, 1).Draw(r, "logs")
	return s
}

// someJob is one of a few jobs; the tasks of j2 must not run twice, and files of those of j3 and r1
// are kept.
func someJob(id taskstate.JobID) ledger.Command {
	c := submit(id, map[taskstate.JobID]int{"j1": 1, "j2": 5, "j3": 12, "r1": 6, "a1": 2, "a2": 2, "s1": 3, "s2": 2, "c1": 4, "k1": 2, "k2": 2}[id])
	job := &c.Submit.Job
	job.Run.Noop = &taskstate.Noop{Duration: 1}
	job.Unreachable.Wait = id == "j2" || id == "s2"
	switch id {
	case "j3":
		job.Outputs = &taskstate.Outputs{Globs: []string{"*"}}
	case "r1":
		job.Outputs = &taskstate.Outputs{Globs: []string{"*"}, Keep: 3}
		job.MaxFails, job.Restart = 3, &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 2, Delay: 5}
	case "a1":
		job.After = []taskstate.JobID{"j1", "r1"}
	case "a2":
		job.After = []taskstate.JobID{"a1", "s2"}
	case "s1":
		job.Type, job.Name, job.Restart = taskstate.ServiceJob, "web", &taskstate.Restart{Condition: taskstate.RestartAny}
	case "s2":
		job.Type, job.Name = taskstate.ServiceJob, "web"
	case "g1":
		job.Type = taskstate.GlobalJob
	case "c1":
		job.Schedule = &taskstate.Schedule{Cron: "* * * * *"}
	case "k1":
		job.Origin = &taskstate.Origin{Job: "c1", At: 1000}
	case "k2":
		job.Origin = &taskstate.Origin{Job: "c1", At: 2000}
	}
	return c
}

// anyHistory begins with all peers registered and some of the jobs there, and draws the rest: half
// of it blindly, half of it so that it says something about the state at hand.
func anyHistory(r *rapid.T) []ledger.Entry {
	begin := []ledger.Command{{Lead: &ledger.Lead{Chain: true}}}
	for _, p := range []string{"p1", "p2", "p3"} {
		begin = append(begin, ledger.Command{Admit: &ledger.Admit{Entry: entryFor(p, admission.Worker)}}, ledger.Command{Register: &ledger.Register{Peer: p, Incarnation: "i1"}})
	}
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(jobIDs()), 2, 6, rapid.ID).Draw(r, "jobs") {
		begin = append(begin, someJob(id))
	}
	var out []ledger.Entry
	st := ledger.NewState()
	for i := range rapid.IntRange(10, 70).Draw(r, "entries") {
		cmds := begin
		if i > 0 {
			cmds = nil
			for range rapid.IntRange(1, 3).Draw(r, "commands") {
				if rapid.Bool().Draw(r, "blindly") {
					cmds = append(cmds, rapid.Custom(anyCommand).Draw(r, "command"))
				} else {
					cmds = append(cmds, aptCommand(r, st))
				}
			}
		}
		e := ledger.Entry{
			Index: uint64(i + 1), Epoch: taskstate.At(1, uint64(1+i/10)-uint64(rapid.IntRange(0, 9).Draw(r, "term"))/9),
			Stamp: 1000 + rapid.Int64Range(0, 50).Draw(r, "stamp") + 400*int64(i), By: "p1", Commands: cmds,
		}
		st.Apply(e)
		out = append(out, e)
	}
	return out
}

func jobIDs() []taskstate.JobID {
	return []taskstate.JobID{"j1", "j2", "j3", "r1", "a1", "a2", "s1", "s2", "g1", "c1", "k1", "k2"}
}

func TestTheStateDoesWhatItsDumbTwinDoes(t *testing.T) {
	long.Cases(t, 15)
	rapid.Check(t, func(r *rapid.T) {
		st, twin := ledger.NewState(), newDumb()
		for _, e := range anyHistory(r) {
			was := show(st)
			st.Apply(e)
			twin.apply(e)
			if got, want := show(st), twin.show(); got != want {
				r.Fatalf("after entry %d at %d: %s\n%s\nand before:\n%s", e.Index, e.Stamp, said(e), differing(got, want), differing(was, ""))
			}
		}
	})
}

// said spells an entry's commands.
func said(e ledger.Entry) (out string) {
	for _, c := range e.Commands {
		v := reflect.ValueOf(c)
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
				out += fmt.Sprintf("%s%+v ", v.Type().Field(i).Name, v.Field(i).Elem().Interface())
			}
		}
	}
	return out
}

// differing lists the lines that are not the same.
func differing(got, want string) (out string) {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			out += "  is     " + x + "\n  twin's " + y + "\n"
		}
	}
	return out
}

func TestCountsAndRunsAgreeWithTheSlots(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		st := ledger.NewState()
		for _, e := range anyHistory(r) {
			before := ends(st)
			st.Apply(e)
			renewed := slices.ContainsFunc(e.Commands, func(c ledger.Command) bool { return c.Renew != nil })
			for id, at := range before {
				if now := ends(st)[id]; at != 0 && now != at && !renewed {
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

// TestASnapshotChangesNothing goes through one history twice: once as it is, once with the state
// replaced by its own snapshot now and then.
func TestASnapshotChangesNothing(t *testing.T) {
	long.Cases(t, 25)
	rapid.Check(t, func(r *rapid.T) {
		plain, other := ledger.NewState(), ledger.NewState()
		for _, e := range anyHistory(r) {
			a, b := plain.Apply(e), other.Apply(e)
			if !reflect.DeepEqual(a, b) || show(plain) != show(other) {
				r.Fatalf("after entry %d:\n%s\n%v\nwith snapshots:\n%s\n%v", e.Index, show(plain), a, show(other), b)
			}
			x, y := encode(r, plain), encode(r, other)
			if !bytes.Equal(x, y) || plain.Kept() != other.Kept() {
				r.Fatalf("after %s equal states have different snapshots, or weigh %d and %d", said(e), plain.Kept(), other.Kept())
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
