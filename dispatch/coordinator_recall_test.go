package dispatch

import (
	"strings"
	"testing"
	"time"
)

// A worker comes back with a task in its queue at the very moment when the coordinator looks for tasks to even out. What it asks
// back then belongs to the Complete set it sends: left out, it would wait for an answer for ever, and ask for nothing more.
func TestARecallDecidedWithACompleteSetIsSentWithIt(t *testing.T) {
	r := newCoordRig(t, CoordinatorConfig{})
	for _, line := range []string{
		"member a", "member b", "hello a cpus=1", "submit j count=2 cpus=1", // both are a's: one runs, one waits
		"open a cpus=1", "hello b cpus=1",
	} {
		r.command(strings.Fields(line))
	}
	r.take()
	r.now = r.now.Add(500 * time.Millisecond) // a busy coordinator: what is due and what came are one step
	r.command(strings.Fields("report a j.1.1=running j.2.1=accepted done"))
	if got := r.take(); !strings.Contains(got, "recall j.2.1") {
		t.Errorf("the queued task is not taken back:\n%s", got)
	}
	r.command(strings.Fields("batch a 1 j.2.1=rejected/recalled"))
	if got := r.take(); !strings.Contains(got, "assign j[2.2] to b") {
		t.Errorf("nor given to the peer with room:\n%s", got)
	}
}
