package coordinator

import (
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// recovered builds a core on a recovered ledger, in which peer w has slots 1 to 3 of job j open,
// and the fourth waits.
func recovered(t *testing.T, wait bool) *rig {
	t.Helper()
	r := newRig(t, CoreConfig{})
	w := admission.Entry{Cluster: "c", Peer: "w", Roles: admission.AllRoles(), By: "founder"}
	job := taskstate.Job{ID: "jjjjjjjjjj", Name: "j", Type: taskstate.BatchJob, Count: 4, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	job.Unreachable.Wait = wait
	founder, _ := r.state.Member("founder")
	for i, cmds := range [][]ledger.Command{
		{{Admit: &ledger.Admit{Entry: w}}, {Register: &ledger.Register{Peer: "w", Incarnation: "i"}}, {Submit: &ledger.Submit{Job: job}}},
		{{Assign: &ledger.Assign{Job: job.ID, Peer: "w", Incarnation: "i", Slots: []ledger.Slots{{First: 1, N: 3, Attempt: 1}}}}},
		{{Found: &ledger.Found{Cluster: "c", Generation: 2, Founder: founder.Entry}}},
	} {
		if i == 2 {
			r.epoch = taskstate.At(2, 1)
		}
		for _, res := range r.state.Apply(ledger.Entry{Index: r.state.Index() + 1, Epoch: r.epoch, By: "founder", Commands: cmds}) {
			if res.Refused != "" {
				t.Fatal(res)
			}
		}
	}
	r.build(CoreConfig{})
	r.take()
	return r
}

func TestAfterARecoveryOnlyWhatAWorkerHasGoesOn(t *testing.T) {
	r := recovered(t, false)
	h := session.Hello{Incarnation: "i", Offer: session.Offer{Resources: taskstate.Resources{MilliCPU: 8000}}}
	r.hello("w", h, r.parseStatus("jjjjjjjjjj.2.1=running"), r.parseStatus("jjjjjjjjjj.4.1=running"))
	out := r.take()
	complete := ""
	for line := range strings.SplitSeq(out, "\n") {
		if strings.Contains(line, "complete 1") {
			complete = line
		}
	}
	if !strings.Contains(complete, "grant jjjjjjjjjj[2.1]") || strings.Count(complete, "grant") != 1 {
		t.Errorf("the worker is told to have %q; want slot 2 alone, so that what it has of a lost assignment is stopped", complete)
	}
	want := []string{"jjjjjjjjjj.1.1001 on w", "jjjjjjjjjj.2.1 on w", "jjjjjjjjjj.3.1001 on w", "jjjjjjjjjj.4.1001 on w"}
	got := r.core.openTasks()
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], "@")
	}
	if !slices.Equal(got, want) {
		t.Errorf("open are %q, want %q\n%s", got, want, out)
	}
}

func TestAfterARecoveryWorkThatMustNotRunTwiceEndsWhereItsWorkerDoesNotHaveIt(t *testing.T) {
	r := recovered(t, true)
	r.hello("w", session.Hello{Incarnation: "i", Offer: session.Offer{Resources: taskstate.Resources{MilliCPU: 8000}}}, r.parseStatus("jjjjjjjjjj.2.1=running"))
	if out := r.take(); !strings.Contains(out, "supersede jjjjjjjjjj.1.1 (dropped) as orphaned") || strings.Contains(out, "again") {
		t.Errorf("what happened:\n%s", out)
	}
}
