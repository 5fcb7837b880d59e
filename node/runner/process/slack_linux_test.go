package process

import "testing"

func TestATaskHasTheUsualTimerSlackHoweverLateItsSupervisorMayBe(t *testing.T) {
	h := start(t, nil)
	id, _ := h.run(shell("cat /proc/self/timerslack_ns; cat /proc/$PPID/timerslack_ns 2>/dev/null; true"))
	switch got := h.file(id, "stdout"); got {
	case "50000\n2000000\n":
	case "50000\n": // only root may look at another's
	default:
		t.Errorf("slack of a task, and of its supervisor: %q", got)
	}
}
