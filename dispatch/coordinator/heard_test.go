package coordinator

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

// away is a peer with four tasks that is found dead, after its worker told others of some of them
// and not its coordinator.
func away(t *testing.T, told ...string) *rig {
	heard := map[taskstate.TaskID]taskstate.Status{}
	r := newRig(t, CoreConfig{Heard: func(t taskstate.TaskID) (taskstate.Status, bool) { st, ok := heard[t]; return st, ok }})
	r.commands("member a", "hello a cpus=4", "member b", "hello b cpus=0", "member c", "hello c cpus=0", "submit j count=4 cpus=1 replace=10s",
		"batch a 1 j.1.1=running j.2.1=running j.3.1=running j.4.1=running")
	for _, s := range told {
		st := r.parseStatus(s)
		heard[st.Task] = st
	}
	r.commands("close a")
	return r
}

func TestAnEndThatEverybodyHeardButTheCoordinatorCountsWhenItsPeerIsGivenUp(t *testing.T) {
	r := away(t, "j.1.1=complete", "j.2.1=failed", "j.3.1=running", "j.4.1=shutdown/interrupted")
	got := r.commands("verdict a dead", "advance 20s b c")
	for _, want := range []string{"settle of a j.1.1=complete j.2.1=failed", "supersede j.3.1 (unreachable) again", "supersede j.4.1 (unreachable) again"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q:\n%s", want, got)
		}
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	got = r.commands("hello a acked=1 cpus=4 j.1.1=complete j.2.1=failed", "batch a 2 j.1.1=complete j.2.1=failed")
	if strings.Contains(got, "settle") || !strings.Contains(got, "ack 2") {
		t.Errorf("told again, it is decided again, or not acknowledged:\n%s", got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestACancelDoesNotUndoAnEndThatEverybodyHeard(t *testing.T) {
	r := away(t, "j.1.1=complete")
	got := r.commands("cancel j", "verdict a dead", "advance 20s b c")
	for _, want := range []string{"settle of a j.1.1=complete", "supersede j.2.1 (unreachable) as shutdown"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q:\n%s", want, got)
		}
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestAnEndThatComesInASessionWhileItIsDecidedAsHeardIsAcknowledgedWithIt(t *testing.T) {
	r := away(t, "j.1.1=complete", "j.2.1=complete", "j.3.1=complete", "j.4.1=complete")
	r.hold = true
	r.commands("verdict a dead", "advance 20s b c")
	if got := r.commands("hello a acked=1 cpus=4", "batch a 2 j.1.1=complete"); strings.Contains(got, "ack 2") {
		t.Errorf("acknowledged before it is decided:\n%s", got)
	}
	for len(r.pending) > 0 {
		r.decide()
	}
	if got := r.take(); !strings.Contains(got, "ack 2") || strings.Contains(got, "settle") {
		t.Errorf("once it is decided:\n%s", got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestAnEndThatEverybodyHeardIsSettledBeforeItsWorkerIsRegisteredInAnotherLife(t *testing.T) {
	r := away(t, "j.1.1=complete", "j.2.1=failed", "j.3.1=running")
	got := r.commands("hello a inc=a2 cpus=0")
	if want := "propose settle of a j.1.1=complete j.2.1=failed; register a/a2\n"; !strings.Contains(got, want) {
		t.Errorf("want %q:\n%s", want, got)
	}
	if got := r.commands("job j"); !strings.Contains(got, "pending 2 open 0 complete 1 failed 1") {
		t.Errorf("the rest is to run again:\n%s", got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestACancelAndAnotherLifeDoNotUndoAnEndThatEverybodyHeard(t *testing.T) {
	r := away(t, "j.1.1=complete")
	if got := r.commands("cancel j", "hello a inc=a2 cpus=0", "job j"); !strings.Contains(got, "complete 1 failed 0 rejected 0 shutdown 3") {
		t.Error(got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestEndsThatFillAProposalAreSettledBeforeTheNextLifeToo(t *testing.T) {
	r := away(t, "j.1.1=complete", "j.2.1=failed", "j.3.1=complete", "j.4.1=complete")
	st := r.core.cfg.Heard
	r.core.tasks.heard = func(t taskstate.TaskID) (taskstate.Status, bool) {
		s, ok := st(t)
		s.Message = strings.Repeat("x", maxDecideSize)
		return s, ok
	}
	got := r.commands("hello a inc=a2 cpus=0", "job j")
	if n := strings.Count(got, "settle of a"); n != 4 || !strings.Contains(got, "settle of a j.4.1=complete; register a/a2") || !strings.Contains(got, "complete 3 failed 1") {
		t.Error(got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestASuccessThatEverybodyHeardCountsAlthoughItsPeerIsRemoved(t *testing.T) {
	r := away(t, "j.1.1=complete", "j.2.1=shutdown/interrupted")
	if got := r.commands("remove a", "job j"); !strings.Contains(got, "pending 3 open 0 complete 1") {
		t.Error(got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}
