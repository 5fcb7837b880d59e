package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"covey/node/sweep"
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
