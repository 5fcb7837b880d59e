package node

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

// trusts has the peer's owner let a key in.
func (l *living) trusts(t *testing.T, key taskstate.PeerID) {
	t.Helper()
	text, err := os.ReadFile(l.owner.Path())
	if err == nil {
		text, err = policy.Add(text, key, nil)
	}
	if err == nil {
		err = os.WriteFile(l.owner.Path(), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.owner.Look()
}

// rules writes the rules of the peer's policy anew.
func (l *living) rules(t *testing.T, text string) {
	t.Helper()
	l.policy(t, "rules:\n"+text)
}

func (l *living) policy(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(l.owner.Path(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.owner.Look()
	if err := l.owner.Wrong(); err != nil {
		t.Fatal(err)
	}
}

// Attack (o): two owners, two policies, one job: each runs only what it allows, and the story of
// the job names the rule.
func TestEachMachineRunsWhatItsOwnPolicyAllows(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	all[0].rules(t, "- {from: [self], run: any}\n")
	all[1].rules(t, "- {from: [key:12D3KooWsomebody], run: any}\n")
	job := noopJob("there", 20, 0)
	id := all[0].submit(job)
	if row, _ := all[0].outcome(id); row.State != "complete" {
		t.Fatalf("%+v", row)
	}
	tasks, err := all[0].Backend().Tasks(t.Context(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tasks.Tasks {
		if x.Peer != all[0].self {
			t.Errorf("task %s ran on %s, whose owner lets in somebody else only", x.ID, x.PeerName)
		}
	}
	only := noopJob("bound", 1, 0)
	only.Constraints = []string{"peer.name == two"}
	bound := all[0].submit(only)
	eventually(t, "it is said why it waits", func() (bool, string) {
		story, err := all[0].Backend().Explain(t.Context(), string(bound))
		if err != nil {
			return false, err.Error()
		}
		text := ""
		for _, f := range story.Explain {
			text += f.Text + "\n"
		}
		return strings.Contains(text, "not allowed by the policy of two: no rule lets in jobs of"), text
	})
	all[1].trusts(t, all[0].self)
	if row, _ := all[0].outcome(bound); row.State != "complete" {
		t.Errorf("when its owner lets it in: %+v", row)
	}
}

// A role that is taken away, or a key that is revoked, stops what runs by it, where the policy does
// not say that it may finish.
func TestWhatRunsByARoleThatIsTakenAwayIsStopped(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one, two, three := all[0], all[1], all[2]
	three.policy(t, "on_revoke: finish\nrules:\n- {from: [self, role:admin], run: any}\n")
	on := func(peer string) string {
		j := shellJob("on-"+peer, 1, "sleep 3600")
		j.Constraints = []string{"peer.name == " + peer}
		return two.submit(j)
	}
	state := func(id string) (state, message string) {
		all, err := one.Backend().AllTasks(t.Context(), id)
		if err != nil || len(all.Tasks) == 0 {
			return "", fmt.Sprint(err)
		}
		k := all.Tasks[len(all.Tasks)-1]
		for _, x := range all.Tasks {
			if x.Attempt == 1 {
				k = x
			}
		}
		return k.State, k.Reason
	}
	stops, finishes := on("one"), on("three")
	for _, id := range []string{stops, finishes} {
		eventually(t, "it runs", func() (bool, string) { s, why := state(id); return s == "running", s + why })
	}
	if _, err := one.SetRoles(timed(t), "two", api.Roles{Roles: []string{"worker", "submit"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is stopped", func() (bool, string) { s, why := state(stops); return s == "shutdown" && why == "policy", s + why })
	applied := one.replica.Applied()
	eventually(t, "three knows it", func() (bool, string) { return three.replica.Applied() >= applied, "" })
	three.guard.Review()
	if s, why := state(finishes); s != "running" {
		t.Errorf("one that may finish is %s %s", s, why)
	}
}

func TestStatusWarnsWhileAnyPeerTakesJobsThatNobodySigned(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	warned := func() (bool, string) {
		st, err := all[0].Status(timed(t))
		text := fmt.Sprint(st.Warnings, err)
		return strings.Contains(text, "jobs that nobody signed run on two"), text
	}
	if on, text := warned(); on {
		t.Errorf("warns while everybody takes signed jobs only: %s", text)
	}
	all[1].policy(t, "unsigned: allow\nrules:\n- {from: [self, role:admin], run: any}\n")
	eventually(t, "it is said of two", warned)
	eventually(t, "peers show it", func() (bool, string) {
		ps, err := all[0].Peers(timed(t))
		text := fmt.Sprintf("%+v %v", ps.Peers, err)
		return strings.Contains(text, api.TroubleUnsigned), text
	})
	all[1].policy(t, "rules:\n- {from: [self, role:admin], run: any}\n")
	eventually(t, "it is over", func() (bool, string) { on, text := warned(); return !on, text })
}
