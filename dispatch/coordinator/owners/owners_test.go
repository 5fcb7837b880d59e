package owners_test

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/coordinator/owners"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

func TestARefusalCountsForOneVersionOfAJobUntilThePeerSaysSomethingNew(t *testing.T) {
	var (
		job   owners.Job
		owner owners.Owner
		roles = owners.Roles{Of: func(taskstate.PeerID) []admission.Role { return nil }}
		body  = &taskstate.Job{ID: "j", Submitter: "12D3KooWmarie"}
		next  = &taskstate.Job{ID: "j", Submitter: "12D3KooWmarie", Version: 2}
	)
	body.Run.Noop, next.Run.Noop = &taskstate.Noop{}, &taskstate.Noop{}
	if no := job.Barred("a", &owner, body, roles); no != "" {
		t.Fatalf("a peer that says nothing of a policy: %s", no)
	}
	job.Refuses("a", &owner, body, "not here")
	if job.Barred("a", &owner, body, roles) != "not here" || job.Barred("a", &owner, next, roles) != "" || job.Barred("b", &owner, body, roles) != "" {
		t.Error("the refusal is of another job, version or peer")
	}
	if owner.Offers(nil, false) || job.Barred("a", &owner, body, roles) == "" {
		t.Error("forgotten though nothing has changed")
	}
	if !owner.Offers(nil, true) || job.Barred("a", &owner, body, roles) != "" {
		t.Error("counts in another session, too")
	}
	job.Refuses("a", &owner, body, "not here")
	let := policy.Policy{Unsigned: true, Rules: []policy.Rule{{From: []string{policy.Role + "admin"}, Run: policy.Run{Any: true}}}}
	if !owner.Offers(&let, false) || job.Barred("a", &owner, body, roles) == "not here" {
		t.Error("counts under another policy, too")
	}
	if job.Barred("a", &owner, body, roles) == "" {
		t.Error("let in without the role")
	}
	roles = owners.Roles{At: 1, Of: func(taskstate.PeerID) []admission.Role { return admission.AllRoles() }}
	if no := job.Barred("a", &owner, body, roles); no != "" {
		t.Errorf("not let in with the role: %s", no)
	}
}
