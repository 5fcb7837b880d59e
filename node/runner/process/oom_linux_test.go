package process

import (
	"os"
	"testing"
)

func TestATaskIsWhomTheKernelMayChooseHoweverItsPeerIsProtected(t *testing.T) {
	const file = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(file, []byte("-500"), 0); err != nil {
		t.Skipf("it takes rights to protect a process: %v", err)
	}
	t.Cleanup(func() { _ = os.WriteFile(file, before, 0) })
	h := start(t, nil)
	id, _ := h.run(shell("cat /proc/self/oom_score_adj"))
	if got := h.file(id, "stdout"); got != "0\n" {
		t.Errorf("its score is %q", got)
	}
}
