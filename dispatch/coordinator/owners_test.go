package coordinator

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

// owned has the rig's peer offer cpus and a policy.
func (r *rig) owned(t *testing.T, peer, rules string) {
	t.Helper()
	p, err := policy.Read([]byte("unsigned: allow\nrules:\n" + rules))
	if err != nil {
		t.Fatal(err)
	}
	d := p.Digest()
	r.step(SessionFrame{Conn: r.conns[peer], Frame: session.Up{Offer: &session.Offer{Resources: taskstate.Resources{MilliCPU: 4000}, Policy: &d}}})
}

// asked is a job that a key asks for.
func (r *rig) asked(t *testing.T, line, by string) string {
	t.Helper()
	r.take()
	words := strings.Fields(line)
	j := jobOf(words[1], map[string]string{"count": strings.TrimPrefix(words[2], "count="), "cpus": "1"})
	j.Submitter = by
	j.Run.Noop, j.Run.Process = nil, &taskstate.Process{Command: []string{"/bin/true"}}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: j}})
	return r.take()
}

func TestARefusalByAnOwnerIsNoFailureAndThePeerIsPassedOverForThatJob(t *testing.T) {
	r := newRig(t, CoreConfig{})
	got := r.commands("member a", "hello a cpus=4", "submit j count=2 cpus=1 wait", "member b", "hello b cpus=2", "batch a 1 j.1.1=rejected/policy j.2.1=rejected/policy")
	for _, want := range []string{"supersede j.1.1 (policy) again", "supersede j.2.1 (policy) again", "to b"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "assign j[1.2] to a") || strings.Contains(got, "assign j[2.2] to a") || strings.Contains(got, "settle") {
		t.Errorf("it goes to the peer that refused it, or counts as an end:\n%s", got)
	}
	if got = r.commands("submit k count=3 cpus=1"); !strings.Contains(got, "to a") {
		t.Errorf("other jobs do not go there:\n%s", got)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}

func TestAJobThatNoOwnerLetsInSaysSo(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "member b", "hello a cpus=4", "hello b cpus=4")
	r.owned(t, "a", "- {from: [self], run: any}")
	r.owned(t, "b", "- {from: [key:12D3KooWmarie], run: {process: [/usr/bin/ffmpeg]}}")
	if got := r.asked(t, "submit j count=2", "12D3KooWmarie"); strings.Contains(got, "assign") {
		t.Errorf("assigned:\n%s", got)
	}
	why := r.core.Waiting("j")
	for _, want := range []string{"policy of a: no rule lets in jobs of 12D3KooWmarie", "policy of b: rule 1 runs only /usr/bin/ffmpeg"} {
		if !strings.Contains(why, want) {
			t.Errorf("%q is missing: %s", want, why)
		}
	}
	r.owned(t, "a", "- {from: [self, key:12D3KooWmarie], run: any}")
	if got := r.take(); !strings.Contains(got, "assign j[1-2.1] to a") {
		t.Errorf("not placed when a's owner lets it in:\n%s", got)
	}
}

// Attack (o): two owners, two policies, one job of 100.
func TestEachOfTwoOwnersHasOnlyWhatItsPolicyAllows(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "member b", "hello a cpus=4", "hello b cpus=4")
	r.owned(t, "a", "- {from: [role:admin], run: any}")
	r.owned(t, "b", "- {from: [key:12D3KooWmarie], run: any, limits: {tasks: 2}}")
	got := r.asked(t, "submit j count=100", "12D3KooWmarie")
	if strings.Contains(got, "to a") || !strings.Contains(got, "assign j[1-2.1] to b") || strings.Count(got, "assign") != 1 {
		t.Errorf("%s", got)
	}
	if why := r.core.Waiting("j"); !strings.Contains(why, "no rule lets in jobs of 12D3KooWmarie") || !strings.Contains(why, "all that their policy lets this key have is taken on 1 peer") {
		t.Errorf("%s", why)
	}
	job := jobOf("k", map[string]string{"count": "1"})
	job.Submitter = "12D3KooWmarie"
	job.Run.Noop, job.Run.Process = nil, &taskstate.Process{Command: []string{"/bin/true"}}
	p := r.core.Preview(&job)
	if len(p.Owners) != 2 || p.Owners[0].No == "" || p.Owners[1].No != "" {
		t.Errorf("%+v", p.Owners)
	}
}

func TestARoleLetsInWhoHasIt(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=4")
	r.owned(t, "a", "- {from: [role:submit], run: any}")
	if got := r.asked(t, "submit j count=1", "founder"); !strings.Contains(got, "assign j[1.1] to a") {
		t.Errorf("%s", got)
	}
}

func TestWhatARemovedPeerOrderedGoesOnWhereItsRoleIsLetIn(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "member marie", "hello a cpus=4", "hello marie cpus=4")
	r.owned(t, "a", "- {from: [role:submit], run: any}")
	r.owned(t, "marie", "- {from: [self], run: any}")
	before := r.asked(t, "submit j count=8", "marie")
	if !strings.Contains(before, "to a") || !strings.Contains(before, "to marie") {
		t.Fatal(before)
	}
	r.apply(ledger.Command{Remove: &ledger.Remove{Peer: "marie"}})
	r.take()
	for _, anew := range []bool{false, true} {
		if anew {
			r.build(CoreConfig{}) // another coordinator
			r.command(strings.Fields("hello a cpus=4"))
			r.owned(t, "a", "- {from: [role:submit], run: any}")
			r.take()
		}
		if why := r.core.Waiting("j"); strings.Contains(why, "policy") || strings.Contains(why, "no rule") {
			t.Errorf("by another coordinator %v: %s", anew, why)
		}
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
}
