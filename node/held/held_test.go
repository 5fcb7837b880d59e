package held

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func namesOf(h *Store) (out []string) {
	for _, j := range h.List() {
		out = append(out, j.Job.Name)
	}
	return out
}

func jobNamed(name string) taskstate.Job {
	j := noopJob(name, 1, 0)
	j.ID = taskstate.NewJobID()
	return j
}

func TestHeldJobsSurviveARestartInTheirOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "held")
	h, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	third, first, second := jobNamed("third"), jobNamed("first"), jobNamed("second")
	for at, j := range map[int64]taskstate.Job{300: third, 100: first, 200: second} {
		if err := h.Put(j, at); err != nil {
			t.Fatal(err)
		}
	}
	h, err = Open(dir, nil)
	if err != nil || !slices.Equal(namesOf(h), []string{"first", "second", "third"}) {
		t.Fatal(namesOf(h), err)
	}
	if got := h.List()[0]; got.Since != 100 || got.Job.ID != first.ID || got.Job.Run.Noop == nil {
		t.Fatalf("%+v", got)
	}
	if was, err := h.Drop(second.ID, false); !was || err != nil {
		t.Fatal(was, err)
	}
	if was, err := h.Drop(second.ID, false); was || err != nil {
		t.Fatal("dropped twice", was, err)
	}
	if h, err = Open(dir, nil); err != nil || !slices.Equal(namesOf(h), []string{"first", "third"}) {
		t.Fatal(namesOf(h), err)
	}
}

func TestADamagedHeldJobIsNamedAndNotForgotten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "k3v5q7x2ab"+heldSuffix)
	if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, nil)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move the file away") {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".damaged"); err != nil {
		t.Fatal(err)
	}
	if h, err := Open(dir, nil); err != nil || len(h.List()) != 0 {
		t.Fatal("other files are in the way", err)
	}
}

func TestHeldJobsAreBounded(t *testing.T) {
	h, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.jobs = make([]Job, most)
	if err := h.Put(jobNamed("one-too-many"), 1); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(h.dir); len(entries) != 0 {
		t.Fatal("a refused job is on disk", entries)
	}
}

func TestAHeldJobThatCannotBeWrittenIsNotHeld(t *testing.T) {
	h, err := Open(filepath.Join(t.TempDir(), "held"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	if err := h.Put(jobNamed("lost"), 1); err == nil || len(h.List()) != 0 {
		t.Fatal("held without a disk", err)
	}
}
