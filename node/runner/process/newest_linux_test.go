package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

func TestAServiceKeepsItsNewestOutput(t *testing.T) {
	h := start(t, func(c *Config) { c.LogCap = 32 << 10 })
	job := shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; until [ -e stop ]; do sleep 0.01; done; echo last")
	job.Type = taskstate.ServiceJob
	l := launch(job, 1)
	h.Start(l)
	h.running(l.Task)
	rel, _ := l.Task.Folder()
	stdout := filepath.Join(h.dir, rel, "stdout")
	for { // until it was made smaller while it runs
		var st syscall.Stat_t
		if err := syscall.Stat(stdout, &st); err != nil {
			t.Fatal(err)
		}
		if st.Size > 200_000 && st.Blocks*512 <= 40<<10 {
			break
		}
	}
	if err := os.WriteFile(filepath.Join(h.dir, rel, "work", "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end := h.end(l.Task)
	got := h.file(l.Task, "stdout")
	if kept := strings.TrimLeft(got, "\x00"); end.Truncated || len(kept) < 16<<10 || len(kept) > 32<<10 || !strings.HasSuffix(kept, "\nline 19999\nlast\n") {
		t.Errorf("%d bytes are kept, ending %q; %+v", len(kept), kept[max(0, len(kept)-30):], end)
	}
}
