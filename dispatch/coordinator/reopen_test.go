package coordinator

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func (r *rig) retry(job string, runs ...ledger.Slots) {
	r.t.Helper()
	if res := r.apply(ledger.Command{Renew: &ledger.Renew{Job: taskstate.JobID(job), Slots: runs, Reason: taskstate.ReasonRetried}}); res[0].Reopened == nil {
		r.t.Fatalf("the job was not over: %+v", res[0])
	}
}

// A person retries a job that is over. The coordinator had forgotten it, and goes on with it in
// place: no session notices.
func TestARetriedJobThatWasOverGoesOnAndNoSessionEnds(t *testing.T) {
	for name, lines := range map[string][]string{
		"failed":               {"submit j count=3 cpus=1", "batch a 1 j.1.1=failed j.2.1=complete j.3.1=failed"},
		"cancelled":            {"submit j count=3 cpus=1", "cancel j", "batch a 1 j.1.1=shutdown j.2.1=shutdown j.3.1=shutdown"},
		"new coordinator":      {"submit j count=3 cpus=1", "batch a 1 j.1.1=failed j.2.1=complete j.3.1=failed", "elect", "hello a cpus=4"},
		"cancelled, unstarted": {"submit j count=9 cpus=1 parallel=1", "cancel j", "batch a 1 j.1.1=shutdown"},
	} {
		r := newRig(t, CoreConfig{})
		for _, line := range append([]string{"member a", "hello a cpus=4", "submit other count=1 cpus=1"}, lines...) {
			r.command(strings.Fields(line))
		}
		r.take()
		if r.core.jobs.of("j") != nil {
			t.Fatalf("%s: the core still drives the job", name)
		}
		r.retry("j", ledger.Slots{First: 1, N: 1}, ledger.Slots{First: 3, N: 1})
		got := r.take()
		if r.over != "" || strings.Contains(got, "closed") || !strings.Contains(got, "assign j[") {
			t.Errorf("%s: started over %q, and did:\n%s", name, r.over, got)
		}
		if err := r.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A service whose tasks have all ended for good is over, too; retried, it is what it was, with its
// versions.
func TestARetriedServiceThatWasOverGoesOn(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "hello a cpus=4"} {
		r.command(strings.Fields(line))
	}
	s := jobOf("s", nil)
	s.Type, s.Count, s.Name, s.Restart = taskstate.ServiceJob, 2, "s", &taskstate.Restart{Condition: taskstate.RestartNone}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: s}})
	r.command(strings.Fields("batch a 1 s.1.1=complete s.2.1=complete"))
	rec, _ := r.state.Job("s")
	if _, over := rec.Ended(); !over {
		t.Fatalf("the service goes on: %+v", rec.Counts())
	}
	r.build(CoreConfig{}) // one that never knew it
	r.command(strings.Fields("hello a cpus=4"))
	r.take()
	r.retry("s", ledger.Slots{First: 2, N: 1})
	if got := r.take(); r.over != "" || !strings.Contains(got, "assign s[2.2] to a") {
		t.Errorf("started over %q, and did:\n%s", r.over, got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

// A job is cancelled and wanted after all while an assignment of it is on its way to the ledger,
// which refuses that: it is of an attempt nobody waits for any more.
func TestAnAssignmentUnderWayDoesNotCountForAJobThatWasCancelledAndRetriedMeanwhile(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "hello a cpus=4", "hold", "submit j count=2 cpus=1"} {
		r.command(strings.Fields(line))
	}
	if got := r.take(); !strings.Contains(got, "propose assign j[1-2.1] to a") {
		t.Fatalf("nothing is under way:\n%s", got)
	}
	r.apply(ledger.Command{Cancel: &ledger.Cancel{Job: "j"}})
	r.retry("j", ledger.Slots{First: 1, N: 1})
	r.hold = false
	r.step(TimePassed{})
	if got := r.take(); r.over != "" || !strings.Contains(got, "assign j[1-2.2] to a") {
		t.Errorf("started over %q, and did:\n%s", r.over, got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

// Jobs that were cut because one failed wait for it again when it is retried, and then for each
// other.
func TestJobsThatAreTakenAlongByARetryBeginOneAfterTheOther(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "hello a cpus=4"} {
		r.command(strings.Fields(line))
	}
	for m := range r.state.Members() {
		r.apply(ledger.Command{Reads: &ledger.ReadsDialect{Peer: m.Entry.Peer, Dialect: 2}})
	}
	for _, id := range []string{"f", "d", "e"} {
		j := jobOf(id, nil)
		j.Type, j.Count = taskstate.BatchJob, 1
		j.After = map[string][]taskstate.JobID{"d": {"f"}, "e": {"d"}}[id]
		r.apply(ledger.Command{Submit: &ledger.Submit{Job: j}})
	}
	r.command(strings.Fields("batch a 1 f.1.1=failed"))
	r.take()
	r.retry("f", ledger.Slots{First: 1, N: 1})
	for _, want := range []struct{ begins, ends string }{{"f[1.2]", "batch a 2 f.1.2=complete"}, {"d[1.2]", "batch a 3 d.1.2=complete"}, {"e[1.2]", "batch a 4 e.1.2=complete"}} {
		if got := r.take(); r.over != "" || !strings.Contains(got, "assign "+want.begins+" to a") || strings.Count(got, " assign ") != 1 {
			t.Errorf("started over %q, and in place of %s did:\n%s", r.over, want.begins, got)
		}
		r.command(strings.Fields(want.ends))
		if err := r.check(); err != nil {
			t.Error(err)
		}
	}
}
