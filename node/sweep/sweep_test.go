package sweep

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/taskstate"
)

func TestFilesOfForgottenJobsGoWhenTheyHaveBeenUnknownForAWhileAndOnlyWhileTheLedgerIsCurrent(t *testing.T) {
	s, now := &Sweeper{limit: 1 << 40}, time.Unix(1000, 0)
	there := []leftover{{job: "gone", bytes: 1}, {job: "goeson", bytes: 1, known: true}, {job: "over", bytes: 1, known: true, ended: 5}}
	look := func(after time.Duration, current bool) []taskstate.JobID {
		now = now.Add(after)
		return s.step(there, current, now)
	}
	if got := look(0, true); len(got) > 0 {
		t.Fatal("at first sight:", got)
	}
	if got := look(Patience-1, true); len(got) > 0 {
		t.Fatal("too soon:", got)
	}
	if got := look(time.Hour, false); len(got) > 0 {
		t.Fatal("while nobody knows:", got)
	}
	if got := look(time.Hour, true); len(got) > 0 {
		t.Fatal("it counts anew after that:", got)
	}
	if got := look(Patience, true); !slices.Equal(got, []taskstate.JobID{"gone"}) {
		t.Fatal(got)
	}
}

func TestFilesStayBelowTheirLimitAndTheNewestAndThoseInUseStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var found []leftover
		var inUse int64
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			l := leftover{job: taskstate.JobID(fmt.Sprint(i)), known: true, bytes: rapid.Int64Range(0, 50).Draw(t, "bytes"), ended: rapid.Int64Range(0, 5).Draw(t, "ended")}
			if l.ended == 0 {
				inUse += l.bytes
			}
			found = append(found, l)
		}
		limit := rapid.Int64Range(0, 200).Draw(t, "limit")
		removed := (&Sweeper{limit: limit}).step(found, true, time.Unix(1, 0))
		var left, newestGone int64
		for _, l := range found {
			if !slices.Contains(removed, l.job) {
				left += l.bytes
				continue
			}
			if newestGone = max(newestGone, l.ended); l.ended == 0 {
				t.Fatalf("job %s goes on and was removed", l.job)
			}
		}
		if left > max(limit, inUse) {
			t.Fatalf("%d bytes stay, the limit is %d, in use are %d", left, limit, inUse)
		}
		for _, l := range found {
			if l.ended > 0 && l.ended < newestGone && l.bytes > 0 && !slices.Contains(removed, l.job) {
				t.Fatalf("job %s ended before one that was removed, and stays", l.job)
			}
		}
	})
}

// What a task worked in goes when its output is safe, and never before; what it said stays.
func TestWorkFoldersGoFirstAndOnlyOfTasksWhoseOutputIsSafeOrThatAreOverOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	put := func(task string, n int) {
		work := filepath.Join(dir, task, "work", "deep")
		if err := os.MkdirAll(work, 0o700); err != nil {
			t.Fatal(err)
		}
		for path, n := range map[string]int{filepath.Join(work, "f"): n, filepath.Join(dir, task, "stdout"): 4096} {
			if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(work, 0o500); err != nil { // as a task may leave it
			t.Fatal(err)
		}
	}
	there := func(task string) bool {
		_, err := os.Stat(filepath.Join(dir, task, "work"))
		_, said := os.Stat(filepath.Join(dir, task, "stdout"))
		if said != nil {
			t.Errorf("what %s said is gone", task)
		}
		return err == nil
	}
	for _, task := range []string{"aaa/1.1", "aaa/2.1", "bbb/1.1", "bbb/1.2", "ccc/1.1"} {
		put(task, 64<<10)
	}
	found := func() []leftover {
		out := []leftover{{job: "aaa", known: true}, {job: "bbb", known: true, ended: 5}, {job: "ccc"}}
		for i := range out {
			out[i].bytes = treeBytes(filepath.Join(dir, string(out[i].job)))
		}
		return out
	}
	all := int64(0)
	for _, l := range found() {
		all += l.bytes
	}
	safe := map[string]bool{}
	cfg := Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Safe: func(id taskstate.TaskID) bool { return safe[id.String()] }}
	s := &Sweeper{cfg: cfg, limit: 1}
	s.shed(found())
	for _, task := range []string{"aaa/1.1", "aaa/2.1", "bbb/1.1", "bbb/1.2", "ccc/1.1"} {
		if !there(task) {
			t.Fatalf("%s went, which is not safe", task)
		}
	}
	safe = map[string]bool{"aaa.1.1": true, "bbb.1.2": true, "ccc.1.1": true}
	s.limit = all - 1
	s.shed(found())
	if there("bbb/1.2") || !there("aaa/1.1") || !there("bbb/1.1") || !there("ccc/1.1") {
		t.Error("of the jobs that are safe, another than the one that ended went first, or more than had to")
	}
	s.limit = 1
	left := found()
	s.shed(left)
	if there("aaa/1.1") || !there("aaa/2.1") || !there("ccc/1.1") {
		t.Error("what is safe of a job that goes on stays, or something else went")
	}
	var missing int64
	s.cfg.Lacks = func() int64 { return missing }
	s.cfg.Over = func(id taskstate.TaskID) bool { return id.String() != "bbb.1.1" }
	s.limit = 1 << 40
	if s.shed(found()); !there("aaa/2.1") {
		t.Error("it went though there is room")
	}
	missing = 1
	left = found()
	if s.shed(left); there("aaa/2.1") || !there("bbb/1.1") || !there("ccc/1.1") {
		t.Error("on a full disk what is over stays, or something else went")
	}
	for _, l := range left {
		if now := treeBytes(filepath.Join(dir, string(l.job))); l.bytes != now {
			t.Errorf("%s is said to have %d bytes, and has %d", l.job, l.bytes, now)
		}
	}
}
