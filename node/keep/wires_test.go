package keep

import (
	"reflect"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"request": &request{}, "answer": &answer{}}})
}

func TestAPinTellsWhoseItIs(t *testing.T) {
	task := taskstate.Task("k3-v5-x2ab", 12, 3)
	if got, ok := TaskOfPin(PinName(task)); !ok || got != task || PinName(task) != "out-k3-v5-x2ab-12.3" {
		t.Errorf("%q becomes %v", PinName(task), got)
	}
	for _, name := range []string{"", "out-", "out-a", "out-a-1", "out-a-1.0", "out-a-01.1", "out-a-1.1x", "put-a-1.1", "out-A-1.1", "out-../a-1.1"} {
		if got, ok := TaskOfPin(name); ok {
			t.Errorf("%q is said to be of %v", name, got)
		}
	}
}

// Whatever a peer sends, a request that is taken names something to keep and who has it, and is the
// same when it is written again.
func FuzzRequest(f *testing.F) {
	good := Request{Task: taskstate.Task("k3v5q7x2ab", 1, 2), Saved: taskstate.Saved{Root: piece.Root{1}, Logs: piece.Root{2}, Bytes: 3, Files: 4}, Holders: []string{"wren"}}
	for _, r := range []request{good.frame(), {Job: "../x", Slot: 1, Attempt: 1}, {Job: "a", Slot: -1, Root: []byte{1}}, {Holders: []string{""}}, {Job: "a", Printed: []Printed{{Slot: 1, Attempt: 1, Out: 2, Stdout: []byte("ab")}}}, {Job: "a", Printed: []Printed{{Slot: 1, Attempt: 1, Out: 3, Stdout: []byte("ab")}}}} {
		b, err := wire.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var raw request
		if wire.Unmarshal(b, &raw) != nil {
			return
		}
		if b := (Batch{Job: taskstate.JobID(raw.Job), Tasks: raw.Printed}); b.check() == nil {
			for i, p := range b.Tasks {
				if _, err := b.Task(i).Folder(); err != nil || p.Bytes() < 0 || len(p.Stdout)+len(p.Stderr) > 0 && !p.Inline() {
					t.Fatalf("%+v", p)
				}
			}
		}
		r, err := raw.parse()
		if err != nil {
			return
		}
		if _, err := r.Task.Folder(); err != nil || len(r.trees()) == 0 || len(r.Holders) == 0 || r.Saved.Bytes < 0 || r.Saved.Files < 0 {
			t.Fatalf("%+v", r)
		}
		if got, ok := TaskOfPin(PinName(r.Task)); !ok || got != r.Task {
			t.Fatalf("the pin %q is of %v", PinName(r.Task), got)
		}
		again := r.frame()
		if back, err := again.parse(); err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%+v becomes %+v, %v", r, back, err)
		}
	})
}

// Whatever a keeper answers, its words are short and can be shown.
func FuzzAnswer(f *testing.F) {
	for _, a := range []answer{{Kept: true}, {Going: &going{7}}, {Refused: &Refused{CodeFull, "no room"}}, {}} {
		b, err := wire.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a answer
		if wire.Unmarshal(b, &a) != nil || a.Refused == nil {
			return
		}
		if n := len(a.Refused.Error()); n > 200 {
			t.Fatalf("it says %d bytes", n)
		}
	})
}
