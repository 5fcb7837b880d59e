package supervise

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// tasksLeft is what a supervisor that comes after a crash would find.
func tasksLeft(t *rapid.T, dir string) map[string]int {
	r, err := openRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	out := map[string]int{}
	for _, rec := range r.left {
		if _, twice := out[rec.task]; twice {
			t.Fatalf("%s is found twice", rec.task)
		}
		out[rec.task] = rec.pid
	}
	return out
}

func TestWhatRunsIsFoundAfterACrashAndNothingElse(t *testing.T) {
	if BootID() == "" {
		t.Skip("boots cannot be told apart here")
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		if err := os.WriteFile(filepath.Join(dir, runningFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openRecords(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.close() }()
		here, n, most := map[string]record{}, 0, 0
		names := func() (all []string) {
			for i := range n {
				if task := fmt.Sprintf("j.%d.1", i+1); here[task].task != "" {
					all = append(all, task)
				}
			}
			return all
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				n++
				task := fmt.Sprintf("j.%d.1", n)
				rec, err := r.begin(task, outputCap{})
				if err != nil {
					t.Fatal(err)
				}
				here[task] = rec
				most = max(most, len(here))
			},
			"started": func(t *rapid.T) {
				if all := names(); len(all) > 0 {
					rec := here[rapid.SampledFrom(all).Draw(t, "task")]
					rec.pid = rapid.IntRange(2, 1<<22).Draw(t, "pid")
					r.started(rec, rec.pid, 7)
					here[rec.task] = rec
				}
			},
			"ended": func(t *rapid.T) {
				if all := names(); len(all) > 0 {
					rec := here[rapid.SampledFrom(all).Draw(t, "task")]
					r.remove(rec.slot)
					delete(here, rec.task)
				}
			},
			"another life": func(t *rapid.T) {
				if err := r.close(); err != nil {
					t.Fatal(err)
				}
				if err := r.close(); err != nil {
					t.Fatalf("closed twice: %v", err)
				}
				if r, err = openRecords(dir); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				found := tasksLeft(t, dir)
				if len(found) != len(here) {
					t.Fatalf("found %v, there are %v", found, here)
				}
				for task, rec := range here {
					if pid, ok := found[task]; !ok || pid != rec.pid {
						t.Fatalf("%s is found as process %d (%v), it is %d", task, pid, ok, rec.pid)
					}
				}
				if info, err := os.Stat(filepath.Join(dir, runningFile)); err != nil || info.Size() > int64(most*recordSize) {
					t.Fatalf("at most %d ran at once, and the file has %d bytes", most, info.Size())
				}
			},
		})
	})
}

func TestARecordThatIsTornSaysNothingAndItsPlaceIsUsedAgain(t *testing.T) {
	line := func(s string) string { return s + strings.Repeat(" ", recordSize-1-len(s)) + "\n" }
	for what, text := range map[string]string{
		"blank": line(""), "half a line": line("12 1 1 0 boot")[:100], "no task": line("12 1 1 0 boot"), "words": line("a b c d e f"), "no end": strings.TrimSuffix(line("12 1 1 0 boot j.1.1"), "\n"),
		"zeroes": strings.Repeat("\x00", recordSize), "the first process": line("1 1 1 0 boot j.1.1"), "a group": line("-5 1 1 0 boot j.1.1"),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, runningFile), []byte(line("12 3 4 0 boot j.9.1")+text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openRecords(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.left) != 1 || r.left[0] != (record{task: "j.9.1", pid: 12, before: 3, after: 4, boot: "boot"}) || len(r.free) != 1 || r.free[0] != 1 {
			t.Errorf("%s: left %+v, free %v", what, r.left, r.free)
		}
		_ = r.close()
	}
}

func TestANameThatIsTooLongIsRefusedAndTakesNoPlace(t *testing.T) {
	if BootID() == "" {
		t.Skip("boots cannot be told apart here")
	}
	r, err := openRecords(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if _, err := r.begin(strings.Repeat("x", recordSize), outputCap{}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%v", err)
	}
	if rec, err := r.begin("j.1.1", outputCap{}); err != nil || rec.slot != 0 {
		t.Errorf("the next one is in slot %d, %v", rec.slot, err)
	}
	r.remove(-1) // of a process that had none
}

// Whatever may be the name of a task fits with the longest numbers it can have: else a task could
// begin and never be found again.
func TestARecordHasRoomForTheLongestNameWithTheLongestNumbers(t *testing.T) {
	if BootID() == "" {
		t.Skip("boots cannot be told apart here")
	}
	dir := t.TempDir()
	r, err := openRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	task := taskstate.Task(taskstate.JobID(strings.Repeat("x", taskstate.MaxJobID)), 9_999_999, 9_999_999).String()
	const century = 100 * 365 * 24 * 3600 * 1000
	rec, err := r.begin(task, outputCap{limit: 1 << 44, newest: true})
	if err != nil {
		t.Fatal(err)
	}
	rec.held, rec.group = math.MaxUint16, 999_999
	want := record{task: task, pid: 1 << 22, before: century, after: century, deadline: 2 * century, boot: BootID()}
	if err := r.put(want); err != nil {
		t.Fatal(err)
	}
	r.started(rec, want.pid, want.deadline)
	again, err := openRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if len(again.left) != 1 || again.left[0].pid != want.pid || again.left[0].deadline != want.deadline || again.left[0].task != task || again.left[0].held != rec.held || again.left[0].group != rec.group {
		t.Errorf("found %+v", again.left)
	}
}

// A folder counts as forgotten only when that is certain: what runs there ends with it.
func TestAFolderIsGoneOnlyWhenItsNameLeadsNowhereOrElsewhere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, runningFile)
	r, err := openRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for what, x := range map[string]struct {
		path string
		here bool
	}{
		"its own":                    {path, true},
		"none":                       {path + ".none", false},
		"no answer: a name too long": {filepath.Join(dir, strings.Repeat("x", 300)), true},
		"another":                    {dir, false},
	} {
		if r.here(x.path) != x.here {
			t.Errorf("%s: here is %v", what, !x.here)
		}
	}
}
