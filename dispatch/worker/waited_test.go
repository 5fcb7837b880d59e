package worker

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// Two of jobWork have room at a time: the third waits for its turn.
func TestAStatusSaysHowLongTheTaskHadWaitedAndRan(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.settle()
	b.now = b.now.Add(1500 * time.Millisecond)
	first := wtask(jobWork, 1)
	delete(b.running, first)
	b.step(Ran{[]taskstate.RunReport{{Task: first, State: taskstate.Complete, At: b.now.UnixMilli(), Took: 1400, Truncated: true}}})
	b.settle()
	said := b.said()
	b.runs(wtask(jobWork, 3))
	b.settle()
	third := wtask(jobWork, 3)
	b.fate = func(taskstate.TaskID) fate { return fateRuns }
	b.crash(true)
	b.now = b.now.Add(time.Hour)
	b.session(1, grantOf(jobWork, 2, 2))
	b.finish(third, taskstate.Complete, "")
	b.settle()
	ends := map[taskstate.TaskID]taskstate.Status{}
	for _, s := range append(said, b.said()...) {
		if s.State == taskstate.Complete {
			ends[s.Task] = s
		}
	}
	if s := ends[first]; s.Took != 1400 || !s.Truncated || s.Waited > 100 {
		t.Errorf("the first: %+v", s)
	}
	if s := ends[third]; s.Waited < 1500 || s.Waited > 1600 {
		t.Errorf("the third waited %d ms: %+v", s.Waited, s)
	}
}
