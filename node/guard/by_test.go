package guard_test

import (
	"testing"

	"covey/taskstate"
)

func TestWhoSignedWhatATaskRunsIsKnownAsLongAsItRuns(t *testing.T) {
	b := newBench(t, "rules:\n- {from: ['key:"+marie+"'], run: any}\nunsigned: allow\n")
	l := task(marie, 1)
	if by, runs := b.By(l.Task); runs || by != "" {
		t.Errorf("before it is started: %q, %v", by, runs)
	}
	b.Guard.Start(l)
	if by, runs := b.By(l.Task); !runs || by != marie {
		t.Errorf("it runs: %q, %v", by, runs)
	}
	b.Guard.Stop(l.Task, taskstate.ReasonCancelled)
	if by, runs := b.By(l.Task); runs || by != "" {
		t.Errorf("it has ended: %q, %v", by, runs)
	}
	b.unsigned = true
	b.Guard.Start(l)
	if by, runs := b.By(l.Task); !runs || by != "" {
		t.Errorf("nobody signed it: %q, %v", by, runs)
	}
}
