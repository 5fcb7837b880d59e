//go:build unix

package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestOutputBeyondTheCapIsCutWithANoteAndTheTaskGoesOn(t *testing.T) {
	h := start(t, func(c *Config) { c.LogCap = 1000 })
	id, end := h.run(shell("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; echo small >&2; echo done > done"))
	if end.State != taskstate.Complete || !end.Truncated || h.file(id, "work/done") != "done\n" {
		t.Fatalf("end = %+v", end)
	}
	if got := h.file(id, "stdout"); !strings.HasPrefix(got, "line 0\nline 1\n") || len(got) != 1000 || strings.Contains(got, "covey") {
		t.Fatalf("stdout (%d bytes) ends %q", len(got), got[990:])
	}
	if got := h.file(id, "stderr"); !strings.HasPrefix(got, "small\n\n[covey: stdout of task "+id.String()+" was cut at 1000 bytes") ||
		strings.Count(got, "[covey: ") != 1 || !strings.HasSuffix(got, "were not kept]\n") {
		t.Errorf("stderr = %q", got)
	}
}

func TestAJobSaysHowMuchOfItsOutputIsKept(t *testing.T) {
	h := start(t, func(c *Config) { c.LogCap = 1000 })
	for limit, kept := range map[int64]int{5000: 4999, 4096: 4096, 0: 1000} {
		job := shell("head -c 4999 /dev/zero")
		job.MaxOutput = limit
		l := launch(job, int(limit)+1)
		h.Start(l)
		end := h.end(l.Task)
		if got := h.file(l.Task, "stdout"); len(got) != kept || end.Truncated != (kept < 4999) {
			t.Errorf("with %d: %d bytes are kept, %+v", limit, len(got), end)
		}
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
	if got := h.file(l.Task, "stdout"); len(got) != 4096 {
		t.Errorf("%d bytes are kept", len(got))
	}
}
