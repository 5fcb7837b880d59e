package testnet_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/testnet/stack"
)

// playScene lives a scene in a bubble.
func playScene(t *testing.T, cfg stack.Config, f func(*stack.Scene)) {
	t.Helper()
	r := inBubble(t, cfg, func(cfg stack.Config) stack.Result { return stack.Play(cfg, f) })
	if r.Violation != nil {
		t.Error(r.Violation)
	}
}

// napJob is a job whose tasks do nothing for a while, and go elsewhere as soon as their peer is
// known to be gone.
func napJob(id string, count int, nap time.Duration) taskstate.Job {
	j := taskstate.Job{ID: taskstate.JobID(id), Name: id, Count: count}
	j.Run.Noop = &taskstate.Noop{Duration: nap.Milliseconds()}
	jobfile.Defaults(&j)
	j.Unreachable.ReplaceAfter = 0
	return j
}

// within fails the test if something takes longer in virtual time.
func within(t *testing.T, s *stack.Scene, limit time.Duration, what string, missing func() string) {
	t.Helper()
	took, why := s.Await(limit, missing)
	if why != "" {
		t.Errorf("not within %v: %s: %s", limit, what, why)
		took, why = s.Await(2*time.Minute, missing)
		t.Errorf("but after %v more, %s", took, why)
		return
	}
	t.Logf("%s: after %v", what, took)
}
