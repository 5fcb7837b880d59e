package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// frames returns what a session was sent, and checks that each frame fits.
func (r *rig) collectFrames() *[]*session.Assignments {
	var got []*session.Assignments
	r.seen = func(ef Effect) {
		if s, ok := ef.(SendDown); ok && s.Frame.Assignments != nil {
			b, err := wire.Marshal(s.Frame)
			if err != nil || len(b) > wire.MaxFrame {
				r.t.Fatalf("frame of %d bytes: %v", len(b), err)
			}
			got = append(got, s.Frame.Assignments)
		}
	}
	return &got
}

// itemsOf puts together what frames grant, by task.
func itemsOf(t *testing.T, frames []*session.Assignments) map[taskstate.TaskID]string {
	out := map[taskstate.TaskID]string{}
	for _, a := range frames {
		for _, g := range a.Grants {
			i := 0
			for _, run := range g.Slots {
				for n := range run.All() {
					out[taskstate.Task(g.Job, n, run.Attempt)] = g.Items[i]
					i++
				}
			}
			if i != len(g.Items) {
				t.Fatalf("%d items for %d slots", len(g.Items), i)
			}
		}
	}
	return out
}

func TestLargeSetsAreSplitIntoFramesThatFitAndLoseNothing(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.command([]string{"member", "a"})
	got := r.collectFrames()
	r.command([]string{"hello", "a"})
	job := taskstate.Job{ID: "jobjobjob1", Type: taskstate.BatchJob, Count: 3000}
	job.Run.Process = &taskstate.Process{Command: []string{"true"}, Script: []byte(strings.Repeat("#", 64<<10))}
	for i := range job.Count {
		job.Each = append(job.Each, fmt.Sprint(i, strings.Repeat("x", 900)))
	}
	check := func(what string, frames []*session.Assignments) {
		t.Helper()
		items := itemsOf(t, frames)
		if len(frames) < 5 || len(items) != job.Count {
			t.Fatalf("%s: %d frames grant %d tasks", what, len(frames), len(items))
		}
		for task, item := range items {
			if item != job.Each[task.Slot-1] {
				t.Fatalf("%s: %s has item %.10q", what, task, item)
			}
		}
		jobs := 0
		for _, a := range frames {
			jobs += len(a.Jobs)
		}
		if jobs != 1 {
			t.Errorf("%s: the job was sent %d times", what, jobs)
		}
	}
	*got = nil
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: job}})
	check("changes", *got)
	for i, a := range *got {
		if a.Complete || a.ResultsIn != a.AppliesTo+1 || i > 0 && a.AppliesTo != (*got)[i-1].ResultsIn {
			t.Errorf("change %d leads from %d to %d", i, a.AppliesTo, a.ResultsIn)
		}
	}
	*got = nil
	r.command([]string{"resync", "a"})
	check("complete set", *got)
	for i, a := range *got {
		if !a.Complete || a.More != (i < len(*got)-1) || a.ResultsIn != (*got)[0].ResultsIn {
			t.Errorf("part %d: complete %t, more %t, results in %d", i, a.Complete, a.More, a.ResultsIn)
		}
	}
}

func TestManyStopsAreSplitToo(t *testing.T) {
	r := newRig(t, CoreConfig{FrameBudget: 10_000})
	r.command([]string{"member", "a"})
	got := r.collectFrames()
	r.command([]string{"hello", "a"})
	r.command([]string{"submit", "jobjobjob1", "count=1000"})
	*got = nil
	r.command([]string{"cancel", "jobjobjob1"})
	stops := 0
	for _, a := range *got {
		if b, _ := wire.Marshal(a); len(b) > 10_000 {
			t.Errorf("frame of %d bytes", len(b))
		}
		stops += len(a.Stop)
	}
	if stops != 1000 {
		t.Errorf("%d stops in %d frames", stops, len(*got))
	}
}

// FuzzWorkerFrames feeds the core whatever a peer may send on its session: it must neither panic
// nor believe it about tasks that are not this peer's.
func FuzzWorkerFrames(f *testing.F) {
	add := func(ups ...session.Up) {
		var b []byte
		for _, u := range ups {
			x, err := wire.Marshal(u)
			if err != nil {
				f.Fatal(err)
			}
			b = append(append(b, byte(len(x)), byte(len(x)>>8)), x...)
		}
		f.Add(b)
	}
	task := taskstate.Task("j", 1, 1)
	add(session.Up{Beat: &session.Beat{N: 1}}, session.Up{Resync: &session.Resync{Have: 9}})
	add(session.Up{Report: &session.Report{Tasks: []taskstate.Status{{Task: task, State: 65000}}, Done: true}})
	add(session.Up{Dropped: &session.Dropped{Tasks: []taskstate.TaskID{task, taskstate.Task("other", -1, 0)}}})
	add(session.Up{Offer: &session.Offer{Resources: taskstate.Resources{MilliCPU: -1 << 63, Memory: 1<<63 - 1, Disk: 1<<63 - 1}}}, session.Up{Beat: &session.Beat{}})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t, CoreConfig{})
		for _, cmd := range []string{"member a", "member b", "hello a", "hello b", "submit j count=3 cpus=1", "submit k count=3"} {
			r.command(strings.Fields(cmd))
		}
		other := len(r.core.peers.of("b").holds)
		for len(b) >= 2 {
			n := min(len(b)-2, int(b[0])|int(b[1])<<8)
			var u session.Up
			if wire.Unmarshal(b[2:2+n], &u) == nil {
				r.step(SessionFrame{Conn: r.conns["a"], Frame: u})
			}
			b = b[2+n:]
		}
		r.command([]string{"advance", "4s"})
		if err := r.check(); err != nil {
			t.Fatal(err)
		}
		if r.over != "" {
			t.Fatalf("a worker made the core start over: %s", r.over)
		}
		if len(r.core.peers.of("b").holds) < other {
			t.Fatal("one worker's frames ended another's tasks")
		}
	})
}
