//go:build unix

package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"covey/taskstate"
)

func TestOutputBeyondTheCapIsCutWithANoteAndTheTaskGoesOn(t *testing.T) {
	h := start(t, func(c *Config) { c.LogCap = 1000 })
	id, end := h.run(shell("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; echo small >&2; echo done > done"))
	if end.State != taskstate.Complete || h.file(id, "work/done") != "done\n" {
		t.Fatalf("end = %+v", end)
	}
	got := h.file(id, "stdout")
	if !strings.HasPrefix(got, "line 0\nline 1\n") || got[1000:1009] != "\n[covey: " || !strings.HasSuffix(got, "were not kept]\n") {
		t.Fatalf("stdout (%d bytes) ends %q", len(got), got[990:])
	}
	if strings.Count(got, "\n[covey: ") != 1 || !strings.Contains(got, "cap of 1000 bytes") {
		t.Fatalf("the note: %q", got[1000:])
	}
	if got := h.file(id, "stderr"); got != "small\n" {
		t.Errorf("stderr = %q", got)
	}
}

func TestOutputOfExactlyTheCapHasNoNote(t *testing.T) {
	h := start(t, func(c *Config) { c.LogCap = 10 })
	id, _ := h.run(shell("printf 0123456789"))
	if got := h.file(id, "stdout"); got != "0123456789" {
		t.Errorf("stdout = %q", got)
	}
}

func TestARunningTaskThatWritesWithoutEndKeepsWithinItsCap(t *testing.T) {
	h := start(t, func(c *Config) { c.LogCap = 4096 })
	// It is cut back twice while it runs: only then does it leave.
	l := launch(shell("while [ ! -e stop ]; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done"), 1)
	h.Start(l)
	h.running(l.Task)
	rel, _ := l.Task.Folder()
	home := filepath.Join(h.dir, rel)
	for cuts, last := 0, int64(0); cuts < 2; {
		st, err := os.Stat(filepath.Join(home, "stdout"))
		if err != nil {
			t.Fatal(err)
		}
		if st.Size() < last {
			cuts++
		}
		last = st.Size()
	}
	if err := os.WriteFile(filepath.Join(home, "work", "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := h.end(l.Task); end.State != taskstate.Complete {
		t.Fatalf("end = %+v", end)
	}
	if got := h.file(l.Task, "stdout"); len(got) < 4096 || len(got) > 4096+300 {
		t.Errorf("%d bytes are kept", len(got))
	}
}
