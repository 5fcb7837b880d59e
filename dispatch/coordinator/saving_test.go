package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

func TestATaskThatIsBeingSavedUsesNothingOfItsPeer(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=2", "submit j count=2 cpus=1", "batch a 1 j.1.1=running j.2.1=running")
	got := r.commands("batch a 2 j.1.1=saving", "submit k count=1 cpus=1", "submit m count=1 parallel=1 cpus=2")
	if !strings.Contains(got, "assign k[1.1] to a") {
		t.Errorf("its place is not given to another:\n%s", got)
	}
	p := r.core.Peers()[0]
	if p.Outstanding != 4 || p.Running.MilliCPU != 1000 || p.Promised.MilliCPU != 4000 {
		t.Errorf("a carries %+v", p)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	r.commands("batch a 3 j.1.1=complete")
	if p := r.core.Peers()[0]; p.Outstanding != 3 || p.Promised.MilliCPU != 4000 {
		t.Errorf("after its end a carries %+v", p)
	}
}

func TestATaskThatIsBeingSavedCountsNeitherForParallelNorForMaxPerPeer(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=4", "submit one count=2 parallel=1", "submit per count=2 perpeer=1", "batch a 1 one.1.1=running per.1.1=running")
	got := r.commands("batch a 2 one.1.1=saving per.1.1=saving")
	for _, want := range []string{"assign one[2.1] to a", "assign per[2.1] to a"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q:\n%s", want, got)
		}
	}
}

func TestANewCoordinatorLearnsFromReportsWhatIsBeingSaved(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=1", "submit j count=2 cpus=1", "batch a 1 j.1.1=running", "batch a 2 j.1.1=saving", "elect")
	r.commands("hello a cpus=1 j.1.1=saving j.2.1=running")
	if p := r.core.Peers()[0]; p.Outstanding != 2 || p.Promised.MilliCPU != 1000 || p.Running.MilliCPU != 1000 {
		t.Errorf("a carries %+v", p)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestATaskThatIsBeingSavedIsNeverTakenForOneThatIsNotStarted(t *testing.T) {
	r := newRig(t, CoreConfig{StartWithin: 30 * time.Second})
	r.commands("member a", "hello a cpus=1", "submit j count=1 cpus=1", "batch a 1 j.1.1=saving")
	if got := r.commands("advance 5m a"); strings.Contains(got, "supersede") || strings.Contains(got, "recall") {
		t.Errorf("it is given up:\n%s", got)
	}
	r.commands("submit k count=2 cpus=1") // there is room for one: it does not start it
	if got := r.commands("advance 40s a"); !strings.Contains(got, "supersede k.1.1 (not-started)") {
		t.Errorf("what is being saved hides that it does not start another:\n%s", got)
	}
}

func TestWhatAnUnreachablePeerWasSavingGoesByItsJobsRule(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=4", "member b", "hello b cpus=0", "member c", "hello c cpus=0", "submit j count=1 cpus=1 replace=10s", "submit once count=1 cpus=1 wait",
		"batch a 1 j.1.1=running once.1.1=running", "batch a 2 j.1.1=saving once.1.1=saving")
	got := r.commands("close a", "verdict a dead", "advance 20s b c")
	if !strings.Contains(got, "supersede j.1.1 (unreachable) again") {
		t.Errorf("it is not replaced:\n%s", got)
	}
	if strings.Contains(got, "supersede once") {
		t.Errorf("what must not run twice does not wait for a person:\n%s", got)
	}
	if why := r.core.Whys()["once"]; !strings.Contains(why, "must not run twice and wait for it") {
		t.Errorf("once waits: %q", why)
	}
	r.commands("hello a cpus=4 j.1.1=saving once.1.1=saving")
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestADrainWaitsForWhatIsBeingSavedAndACancelDoesNot(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=2", "submit j count=2 cpus=1", "batch a 1 j.1.1=running j.2.1=running", "batch a 2 j.1.1=saving")
	got := r.commands("avail a drain grace=5s", "advance 60s a")
	if strings.Contains(got, "stop j.1.1") || !strings.Contains(got, "stop j.2.1 (drained)") {
		t.Errorf("a drained peer is told:\n%s", got)
	}
	if got := r.commands("cancel j"); !strings.Contains(got, "stop j.1.1 (cancelled)") {
		t.Errorf("the peer of a cancelled job is told:\n%s", got)
	}
}

func TestAPeerThatLeavesWhileItSavesLosesTheAttempt(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=2", "submit j count=1 cpus=1", "submit once count=1 cpus=1 wait", "batch a 1 j.1.1=running once.1.1=running", "batch a 2 j.1.1=saving once.1.1=saving")
	if got := r.commands("batch a 3 j.1.1=shutdown/interrupted once.1.1=shutdown/interrupted"); !strings.Contains(got, "supersede j.1.1 (interrupted) again") || !strings.Contains(got, "settle of a once.1.1=shutdown") {
		t.Errorf("decided was:\n%s", got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

// Ends with what is kept are larger: a proposal must stay far below a frame all the same.
func TestAProposalOfEndsStaysSmallWhateverTheyKeep(t *testing.T) {
	kept := &taskstate.Saved{Keep: taskstate.MaxKeep, Why: strings.Repeat("w", taskstate.MaxMessage)}
	q := &endQueue{peer: "a"}
	for n := range 2000 {
		q.list = append(q.list, taskstate.Status{Task: taskstate.Task("j", n+1, 1), State: taskstate.Complete, Saved: kept})
	}
	var o outbox
	o.settle(q)
	bytes := 0
	for _, c := range o.ends(nil, 0, func(*endQueue) {}) {
		for _, st := range c.Settle.Statuses {
			bytes += st.Saved.Size()
		}
	}
	if bytes > maxDecideSize+kept.Size() {
		t.Errorf("one proposal has %d bytes of what is kept", bytes)
	}
}
