package taskstate_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestAnAttemptHasAFolderOfItsOwn(t *testing.T) {
	got, err := taskstate.Task("k3v5q7x2ab", 12, 3).Folder()
	if err != nil || got != "k3v5q7x2ab/12.3" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestNoIDLeadsOutOfTheTasksFolder(t *testing.T) {
	for _, job := range []taskstate.JobID{"", ".", "..", "../x", "a/b", `a\b`, "/a", "a.b", "A", "-a", "a\x00", "c:", taskstate.JobID(strings.Repeat("a", taskstate.MaxJobID+1))} {
		if got, err := taskstate.Task(job, 1, 1).Folder(); err == nil {
			t.Errorf("%q: %q", job, got)
		}
		if got, err := job.Folder(); err == nil {
			t.Errorf("%q: %q", job, got)
		}
	}
	for _, id := range []taskstate.TaskID{taskstate.Task("a", 0, 1), taskstate.Task("a", 1, 0), taskstate.Task("a", -1, -1)} {
		if got, err := id.Folder(); err == nil {
			t.Errorf("%v: %q", id, got)
		}
	}
}

func TestEveryMintedIDHasALocalFolder(t *testing.T) {
	for range 100 {
		got, err := taskstate.NewJobID().Folder()
		if err != nil || !filepath.IsLocal(got) {
			t.Fatalf("%q, %v", got, err)
		}
	}
}
