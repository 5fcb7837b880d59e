package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// serviceOf is a service of n tasks of one cpu each, of its own mind about constraints.
func serviceOf(id string, n int, constraints ...string) taskstate.Job {
	j := jobOf(id, map[string]string{"cpus": "1"})
	j.Name, j.Type, j.Count, j.Constraints = id, taskstate.ServiceJob, n, constraints
	return j
}

// previewRig has the peers a and b of two cpus each.
func previewRig(t *testing.T) *rig {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "member b", "hello a cpus=2", "hello b cpus=2"} {
		r.command(strings.Fields(line))
	}
	return r
}

func (p Preview) String() string {
	return fmt.Sprintf("%v of %d, %d queued, %d wait: %s", p.Places, p.Tasks, p.Queued, p.Waiting, p.Reason)
}

func TestAPreviewSaysWhereTheTasksOfAJobWouldGoAndChangesNothing(t *testing.T) {
	r := previewRig(t)
	r.take()
	many, big, few := jobOf("many", map[string]string{"count": "4", "cpus": "1"}), jobOf("big", map[string]string{"cpus": "64"}), jobOf("few", map[string]string{"count": "9", "cpus": "1", "parallel": "2"})
	odd := serviceOf("odd", 2, "peer.os == plan9")
	for _, x := range []struct {
		job  taskstate.Job
		want string
	}{
		{many, "[{a 2} {b 2}] of 4, 0 queued, 0 wait: "},
		{few, "[{a 1} {b 1}] of 2, 0 queued, 0 wait: "},
		{big, "[] of 1, 0 queued, 1 wait: "},
		{odd, "[] of 2, 0 queued, 2 wait: "},
	} {
		p := r.core.Preview(&x.job)
		if got := p.String(); !strings.HasPrefix(got, x.want) || (p.Reason == "") != (p.Waiting == 0) {
			t.Errorf("%s: %s, want %s", x.job.ID, got, x.want)
		}
		if p.Waiting > 0 && len(p.Refused) == 0 {
			t.Errorf("%s waits for no reason: %+v", x.job.ID, p)
		}
	}
	r.step(TimePassed{})
	if out := r.take(); out != "" || len(r.core.jobs.all) != 0 {
		t.Errorf("asking did something: %s", out)
	}
}

func TestAPreviewOfAnUpdateCountsWhatIsThereAlready(t *testing.T) {
	r := previewRig(t)
	s := serviceOf("s", 4)
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: s}})
	s.Count = 6
	if got := r.core.Preview(&s); got.Tasks != 2 {
		t.Errorf("two more: %v", got)
	}
	s.Count = 3
	if got := r.core.Preview(&s); got.Tasks != 0 || len(got.Places) != 0 || got.Waiting != 0 {
		t.Errorf("fewer: %v", got)
	}
	s.Count, s.Timeout = 4, 1000 // a new version: the old tasks make room
	if got := r.core.Preview(&s).String(); got != "[{a 2} {b 2}] of 4, 0 queued, 0 wait: " {
		t.Errorf("restarted: %s", got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestAPreviewOfAGlobalJobHasATaskForEachPeerThatFits(t *testing.T) {
	r := previewRig(t)
	g := serviceOf("g", 0, "peer.id != b")
	g.Type = taskstate.GlobalJob
	if got := r.core.Preview(&g); got.Tasks != 1 || len(got.Places) != 1 || got.Places[0] != (Place{"a", 1}) {
		t.Errorf("%v", got)
	}
}

func TestRebalancingNamesTheTasksThatWouldMove(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "hello a cpus=4"} {
		r.command(strings.Fields(line))
	}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: serviceOf("s", 4)}})
	if got, _ := r.core.Rebalance("s"); got != nil {
		t.Errorf("with one peer there is nothing to move: %v", got)
	}
	for _, line := range []string{"member b", "hello b cpus=4"} {
		r.command(strings.Fields(line))
	}
	got, busy := r.core.Rebalance("s")
	if busy || fmt.Sprint(got) != "[{3 1 a b} {4 1 a b}]" {
		t.Fatalf("%v", got)
	}
	if got, busy := r.core.Rebalance("nosuch"); got != nil || busy {
		t.Error("moves of a job that is not there")
	}
	r.take()
	r.apply(ledger.Command{Renew: &ledger.Renew{Job: "s", Slots: []ledger.Slots{{First: 3, N: 2, Attempt: 1}}, Reason: taskstate.ReasonMoved}})
	if out := r.take(); !strings.Contains(out, "stop s.3.1 (moved)") || !strings.Contains(out, "stop s.4.1 (moved)") {
		t.Errorf("they are not stopped: %s", out)
	}
	if more, busy := r.core.Rebalance("s"); more != nil || !busy {
		t.Errorf("what leaves is moved again: %v", more)
	}
	r.command(strings.Fields("batch a 1 s.3.1=shutdown/moved s.4.1=shutdown/moved"))
	if out := r.take(); !strings.Contains(out, "to b") {
		t.Errorf("and do not go to the other peer: %s", out)
	}
}

// A command that was done only in part was not mirrored at all: its worker was never told to stop
// the slots that were renewed.
func TestWhatIsDoneOnlyInPartIsFollowed(t *testing.T) {
	r := previewRig(t)
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: serviceOf("s", 2)}})
	r.take()
	r.apply(ledger.Command{Renew: &ledger.Renew{Job: "s", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 7}, {First: 2, N: 1}}, Reason: taskstate.ReasonMoved}})
	if out := r.take(); !strings.Contains(out, "stop s.2.1 (moved)") || strings.Contains(out, "stop s.1.1") {
		t.Errorf("slot 2 is not stopped, or slot 1 is: %s", out)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

// A decision of a job's step that was refused counted as under way for ever, and the job had no
// further step.
func TestARefusedDecisionDoesNotHoldItsJobBack(t *testing.T) {
	r := previewRig(t)
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: serviceOf("s", 1)}})
	l := r.core.jobs.of("s").lasting
	done := ledger.Command{Rollout: &ledger.Rollout{Job: "s", State: taskstate.RolloutCompleted}}
	r.core.upkeep.decideFor(r.core.jobs.of("s"), done) // done is one of its own from here on
	l.proposed = 1
	if res := r.apply(done); res[0].Refused != ledger.CodeConflict {
		t.Fatalf("%+v", res)
	}
	if l.proposed != 0 {
		t.Errorf("%d decisions under way", l.proposed)
	}
}

func TestAnUpdatedScheduleStartsRunsAsItSaysNow(t *testing.T) {
	r := previewRig(t)
	j := jobOf("nightly", nil)
	j.Name, j.Schedule = "nightly", &taskstate.Schedule{Cron: "0 3 * * *"}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: j}})
	j.Schedule, j.Timeout = &taskstate.Schedule{Cron: "* * * * *"}, 5000
	r.apply(ledger.Command{Update: &ledger.Update{Job: j}})
	r.take()
	r.advance(2 * 60e9)
	var run *taskstate.Job
	for x := range r.state.Jobs() {
		if x.Job().Origin != nil {
			run = x.Job()
		}
	}
	if run == nil || run.Timeout != 5000 || run.Origin.Job != "nightly" {
		t.Errorf("no run as the schedule says now: %+v", run)
	}
}

// After an election the newest start that was missed is made up for; it was forgotten, because the
// new coordinator counted from its own beginning.
func TestAStartThatNobodyCouldMakeIsMadeByTheNextCoordinator(t *testing.T) {
	r := previewRig(t)
	j := jobOf("hourly", nil)
	j.Name, j.Schedule = "hourly", &taskstate.Schedule{Cron: "@hourly"}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: j}})
	runs := func() (n int) {
		for x := range r.state.Jobs() {
			if x.Job().Origin != nil {
				n++
			}
		}
		return n
	}
	r.now = r.now.Add(3 * 3600e9) // no peer coordinates meanwhile; then somebody's first entry brings the time
	r.state.Apply(ledger.Entry{
		Index: r.state.Index() + 1, Epoch: r.epoch, Stamp: r.now.UnixMilli(), By: "founder", Commands: []ledger.Command{{Lead: &ledger.Lead{}}},
	})
	r.command([]string{"elect"})
	r.apply(ledger.Command{Lead: &ledger.Lead{}}) // each term begins with it: from here the ledger knows how late it is
	if n := runs(); n != 1 {
		t.Fatalf("%d runs, want the newest that was missed", n)
	}
	r.command([]string{"elect"})
	if n := runs(); n != 1 {
		t.Errorf("%d runs after another election", n)
	}
}

// updated is a service of n tasks of one cpu each that starts new tasks before it stops old ones,
// and its next version.
func updated(n int) (was, next taskstate.Job) {
	was = serviceOf("s", n)
	was.Update = &taskstate.Update{Parallelism: 1, Monitor: 1000, Order: taskstate.StartFirst}
	next = was
	next.Timeout = 1000
	return was, next
}

func TestAPreviewSaysThatAnUpdateThatStartsNewTasksFirstFindsNoRoom(t *testing.T) {
	for _, x := range []struct {
		what   string
		count  int
		change func(*taskstate.Job)
		want   bool
	}{
		{"a full cluster", 4, func(*taskstate.Job) {}, true},
		{"room for one", 3, func(*taskstate.Job) {}, false},
		{"old tasks stop first", 4, func(j *taskstate.Job) { j.Update = &taskstate.Update{Order: taskstate.StopFirst} }, false},
		{"nothing restarts", 4, func(j *taskstate.Job) { j.Timeout, j.Count = 0, 5 }, false},
		{"room would not help", 4, func(j *taskstate.Job) { j.Constraints = []string{"peer.os == plan9"} }, false},
		{"one on each peer", 2, func(j *taskstate.Job) { j.MaxPerPeer = 1 }, true},
	} {
		r := previewRig(t)
		was, next := updated(x.count)
		r.apply(ledger.Command{Submit: &ledger.Submit{Job: was}})
		x.change(&next)
		if got := r.core.Preview(&next); got.Crowded != x.want {
			t.Errorf("%s: crowded %t: %v", x.what, got.Crowded, got)
		}
	}
	if _, next := updated(4); previewRig(t).core.Preview(&next).Crowded {
		t.Error("a new service is no update")
	}
}

func TestAnUpdateThatStartsNewTasksFirstSaysAfterAMinuteWhatToDo(t *testing.T) {
	for _, queues := range []bool{true, false} {
		r := newRig(t, CoreConfig{})
		r.commands("member a", "hello a cpus=2")
		was, next := updated(2)
		r.apply(ledger.Command{Submit: &ledger.Submit{Job: was}})
		r.commands("batch a 1 s.1.1=running s.2.1=running")
		reason := "1 task waits: in line on a, where 2 of 2 cpus are busy"
		if !queues {
			next.MaxPerPeer, reason = 2, "1 task waits: at most 2 of the job may be on one peer (max_per_peer)"
		}
		r.apply(ledger.Command{Update: &ledger.Update{Job: next}})
		r.commands("advance 50s a")
		if got := r.core.Waiting("s"); got != reason {
			t.Errorf("before: %q, want %q", got, reason)
		}
		r.commands("advance 11s a")
		if got := r.core.Waiting("s"); got != reason+"; "+CrowdedHint {
			t.Errorf("after a minute: %q", got)
		}
		next.Update = &taskstate.Update{Parallelism: 1, Monitor: 1000, Order: taskstate.StopFirst}
		r.apply(ledger.Command{Update: &ledger.Update{Job: next}})
		r.commands("advance 1s a")
		if got := r.core.Waiting("s"); strings.Contains(got, CrowdedHint) {
			t.Errorf("with order: stop-first: %q", got)
		}
		if err := r.check(); err != nil {
			t.Error(err)
		}
	}
}
