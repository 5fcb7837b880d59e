package logreplica_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/keep"
	. "github.com/coveyproject/covey/node/logreplica"
	"github.com/coveyproject/covey/taskstate"
)

func write(n int64) func(string, *os.File) error {
	return func(_ string, f *os.File) error { return f.Truncate(n) }
}

func TestSmallOutputAndThatOfFailedTasksHasRoomWhereOtherOutputHasNone(t *testing.T) {
	s := OpenStore(filepath.Join(t.TempDir(), Folder), 40<<20)
	at := func(slot int) taskstate.TaskID { return taskstate.Task("job", slot, 1) }
	p := keep.Printed{Out: 1 << 20}
	for slot := 1; slot <= 2; slot++ { // a tenth is 4 MiB, and half of that is for any output
		if err := s.Keep(at(slot), &p, false, write(p.Out)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Keep(at(3), &p, false, write(p.Out)); err == nil {
		t.Error("a third one had room")
	}
	if err := s.Keep(at(3), &keep.Printed{Out: 1 << 20, Failed: true}, false, write(1<<20)); err != nil {
		t.Error(err)
	}
	if err := s.Keep(at(4), &keep.Printed{Out: 10}, false, write(10)); err != nil {
		t.Error(err)
	}
	if err := s.Keep(at(5), &keep.Printed{Out: 1 << 20, Failed: true}, false, write(1<<20)); err == nil {
		t.Error("a job had more than its tenth")
	}
	if err := s.Keep(at(5), &keep.Printed{Out: 30 << 20}, true, write(30<<20)); err != nil {
		t.Errorf("of a peer that goes: %v", err)
	}
	if err := s.Keep(at(6), &keep.Printed{Out: 30 << 20}, true, write(30<<20)); err == nil {
		t.Error("copies took more than their budget")
	}
	if again := OpenStore(s.Dir, 40<<20); again.Keep(at(6), &keep.Printed{Out: 30 << 20}, true, write(30<<20)) == nil {
		t.Error("after a start they did")
	}
	if err := s.Remove("job"); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(at(6), &keep.Printed{Out: 30 << 20}, true, write(30<<20)); err != nil {
		t.Errorf("after the job is gone: %v", err)
	}
}

// Whatever is kept, fails half way or is kept anew in another size: what is counted is what is on
// the disk, and a copy is there whole or not at all.
func TestWhatIsCountedIsWhatIsThere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := filepath.Join(t.TempDir(), Folder)
		s := OpenStore(dir, 10<<20)
		here := map[taskstate.TaskID]keep.Printed{}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			task := taskstate.Task(rapid.SampledFrom([]taskstate.JobID{"a", "b"}).Draw(rt, "job"), rapid.IntRange(1, 3).Draw(rt, "slot"), 1)
			p := keep.Printed{Out: int64(rapid.IntRange(0, 600_000).Draw(rt, "out")), Err: int64(rapid.IntRange(0, 9000).Draw(rt, "err"))}
			breaks := rapid.IntRange(0, 3).Draw(rt, "breaks") == 0 && p.Bytes() > 0
			err := s.Keep(task, &p, false, func(stream string, f *os.File) error {
				if breaks {
					return errors.New("it broke off")
				}
				return f.Truncate(map[string]int64{"stdout": p.Out, "stderr": p.Err}[stream])
			})
			if breaks && err == nil {
				rt.Fatal("half of it was kept")
			}
			if err == nil {
				here[task] = p
			}
			for task, p := range here {
				if !s.Has(task, &p) {
					rt.Fatalf("%s is not there", task)
				}
			}
			if mine, again := s.Taken(), OpenStore(dir, 10<<20).Taken(); mine != again {
				rt.Fatalf("it counts %d, and there is %d", mine, again)
			}
		}
	})
}
