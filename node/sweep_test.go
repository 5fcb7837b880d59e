package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/sweep"
)

func TestWhatAJobLeftOnDiskIsRemovedAndWhatTheFolderIsForStays(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one", KeepOutput: 1})
	id := l.submit(shellJob("loud", 1, "echo a line; mkdir sub; echo more > sub/file"))
	l.outcome(id)
	stray := filepath.Join(l.folder.path("tasks"), "lostlostlo", "1.1")
	if err := os.MkdirAll(stray, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stray, "stdout"), []byte("of a job nobody knows"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, now := sweep.New(l.sweepConfig()), time.Now()
	s.Once(timed(t), now)
	if _, err := os.Stat(l.folder.path("tasks", id)); !os.IsNotExist(err) {
		t.Errorf("the files of a finished job stay above the limit: %v", err)
	}
	if _, err := os.Stat(stray); err != nil {
		t.Errorf("what is unknown went at first sight: %v", err)
	}
	s.Once(timed(t), now.Add(sweep.Patience))
	if _, err := os.Stat(stray); !os.IsNotExist(err) {
		t.Errorf("what is unknown stays: %v", err)
	}
	if _, err := os.Stat(l.folder.path("tasks", ".running")); err != nil {
		t.Error(err)
	}
	again := l.submit(shellJob("after", 1, "echo still works"))
	if row, _ := l.outcome(again); row.State != "complete" {
		t.Errorf("a job after it: %+v", row)
	}
}

func TestTheFolderOfATaskGoesWhenItsOutputIsSafeAndTheOutputStays(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one", KeepOutput: 1})
	j := outputJob("tidy", "head -c 3000000 /dev/zero > big; head -c 3000000 /dev/zero > scratch; echo said; test $COVEY_SLOT = 1 || sleep 600", "", "big")
	j.Count = 2
	id := l.submit(j)
	work := func(slot int) string { return l.folder.path("tasks", id, fmt.Sprint(slot, ".1"), "work") }
	seen := false
	eventually(t, "the folder of the task that ended is gone", func() (bool, string) {
		l.sweepOnce(t)
		_, err := os.Stat(work(1))
		seen = seen || err == nil
		saved := l.savedOf(id, 1)
		if seen && err != nil && saved == nil {
			t.Fatal("it went before its end was settled")
		}
		return err != nil && saved != nil, fmt.Sprintf("%+v", saved)
	})
	scratch := filepath.Join(work(2), "scratch")
	eventually(t, "the other task has begun", func() (bool, string) { _, err := os.Stat(scratch); return err == nil, fmt.Sprint(err) })
	l.sweepOnce(t)
	if _, err := os.Stat(scratch); err != nil {
		t.Errorf("of a task that runs: %v", err)
	}
	if got := l.fetched(l.client(), l.savedOf(id, 1).Root); len(got["big"]) != 3_000_000 {
		t.Errorf("%d bytes are left of its output", len(got["big"]))
	}
	if got := l.output(id, api.LogQuery{Slot: 1, Stream: "stdout"}); got != "said\n" {
		t.Errorf("it said %q", got)
	}
	if _, err := l.Cancel(timed(t), id); err != nil {
		t.Fatal(err)
	}
	l.outcome(id)
}

func (l *living) sweepOnce(t *testing.T) { sweep.New(l.sweepConfig()).Once(timed(t), time.Now()) }
