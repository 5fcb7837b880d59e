package guard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/guard"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

func TestTheFirstPolicyOfAMachineFollowsFromHowItCameIntoItsCluster(t *testing.T) {
	guest := []admission.Role{admission.Worker}
	for name, c := range map[string]struct {
		older, resumed bool
		roles          []admission.Role
		want           string
		said           string // by Settle or as a warning
	}{
		"a machine of mine":                        {roles: admission.AllRoles(), want: string(policy.Text(true, false))},
		"a machine of others":                      {roles: guest, want: string(policy.Text(false, false)), said: "runs nothing"},
		"mine, of an older version":                {older: true, resumed: true, roles: admission.AllRoles(), want: string(policy.Text(true, true)), said: "did not sign"},
		"of others, of an older version":           {older: true, resumed: true, roles: guest, want: string(policy.TextAsBefore()), said: "whoever may submit has commands run here"},
		"mine, and its policy was removed":         {resumed: true, roles: admission.AllRoles(), want: string(policy.Text(true, false)), said: "was gone"},
		"of others, and its policy was removed":    {resumed: true, roles: guest, want: string(policy.Text(false, false)), said: "runs nothing until its owner lets somebody in"},
		"an older folder that joins one of others": {older: true, roles: guest, want: string(policy.Text(false, false)), said: "runs nothing"},
	} {
		path := filepath.Join(t.TempDir(), policy.FileName)
		o := guard.NewOwner(guard.OwnerConfig{Path: path, Changed: func() {}, Older: c.older})
		said, err := o.Settle(c.resumed, c.roles)
		text, _ := os.ReadFile(path)
		if err != nil || string(text) != c.want {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if all := said + strings.Join(o.Warnings(), "\n"); !strings.Contains(all, c.said) || c.said == "" && all != "" {
			t.Errorf("%s: it says %q", name, all)
		}
		if again, err := o.Settle(true, c.roles); again != "" || err != nil {
			t.Errorf("%s: at the next start it says %q, %v", name, again, err)
		}
	}
}

func TestARuleForAUserThatTheMachineHasNotIsToldAndLetsNothingRun(t *testing.T) {
	b := newBench(t, "rules:\n- {from: [self], run: any}\n")
	path := filepath.Join(t.TempDir(), policy.FileName)
	if err := os.WriteFile(path, []byte("rules:\n- {from: [self], run: any, as: \"user:nobody-of-this-name\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := guard.NewOwner(guard.OwnerConfig{Path: path, Changed: func() {}, Roles: func(string) []admission.Role { return nil }})
	o.Hold([]string{taskstate.RequireUser}, nil)
	if w := strings.Join(o.Warnings(), "\n"); !strings.Contains(w, "rule 1 of this machine's policy (line 2) lets nothing run: tasks are to run as nobody-of-this-name") {
		t.Errorf("it warns %q", w)
	}
	d := guard.OwnerView{Owner: o, Guard: b.Guard}
	got, err := d.TryTrust(t.Context(), api.TrustTry{Job: *task(mine, 1).Job})
	if err != nil || got.Allowed || got.Rule != 1 || !strings.Contains(got.Reason, "nobody-of-this-name") || got.Held != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTheFirstKeyThatIsLetInTakesThePlaceOfWhoeverMaySubmit(t *testing.T) {
	text, err := policy.Add(policy.TextAsBefore(), marie, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Read(text)
	if err != nil || p.Unsigned || len(p.Rules) != 1 || p.Rules[0].From[0] != policy.Key+marie {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestAnOrderOfAFarFutureOrForTooLongStartsNothing(t *testing.T) {
	const today = 1_700_000_000_000
	o := guard.NewOwner(guard.OwnerConfig{
		Path: filepath.Join(t.TempDir(), policy.FileName), Self: mine, Cluster: func() string { return "c" }, Now: func() int64 { return today },
		Verify: func(taskstate.PeerID, []byte, []byte) error { return nil }, Replica: ledger.NewReplica(), Life: func() taskstate.Incarnation { return "1" },
	})
	asks := func(change func(*taskstate.Order)) error {
		l := task(mine, 1)
		if err := taskstate.SignOrder(l.Job, "c", mine, today, nil, func([]byte) ([]byte, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		change(l.Job.Order)
		_, _, err := o.Asks(&l)
		return err
	}
	const day = 24 * 60 * 60_000
	for what, c := range map[string]struct {
		change func(*taskstate.Order)
		want   string
	}{
		"two days ahead": {func(o *taskstate.Order) { o.At += 2 * day; o.Until += 2 * day }, "one of the clocks is 48h off"},
		"until a moment so far that differences overflow": {func(o *taskstate.Order) { o.At, o.Until = -1, 1<<63-1 }, "for so long"},
		"for as long as wraps round in nanoseconds":       {func(o *taskstate.Order) { o.Until = o.At + (1<<63/1_000_000+1)*2 }, "for so long"},
		"for ten years": {func(o *taskstate.Order) { o.Until += 3650 * day }, "for so long"},
		"a day ahead":   {func(o *taskstate.Order) { o.At += day; o.Until += day }, "knows no such job"}, // the ledger has none here
	} {
		if err := asks(c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", what, err, c.want)
		}
	}
}
