// Package owners tells which peers' owners do not let a job run there, as far as the coordinator
// knows: by the digest of the policy that the peer offers, and by what it refused. It is pure.
//
// The peers decide themselves; what is known here spares them the trouble and says why something
// waits. A refusal counts for one version of the job, until the peer opens another session or
// offers another policy.
package owners

import (
	"cmp"
	"reflect"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

// Owner is the policy that a peer offers; the zero value is that nothing is known of it.
type Owner struct {
	policy *policy.Policy
	at     uint64 // changes with every policy and every session
}

// Offers takes what the peer offers now; nil: it says nothing of a policy. anew says that it came
// with another session. It tells whether that may change who lets what in.
func (o *Owner) Offers(p *policy.Policy, anew bool) bool {
	if !anew && reflect.DeepEqual(p, o.policy) {
		return false
	}
	o.policy = p
	o.at++
	return true
}

// Job is what is known of who lets a job in. The zero value is ready.
type Job struct {
	told    map[taskstate.PeerID]word
	refused map[taskstate.PeerID]word
}

// word is what a peer's owner says of a version of a job.
type word struct {
	body *taskstate.Job
	at   uint64 // of the Owner
	who  uint64 // of what is known of the roles
	no   string // why not; "": it may
	rule *policy.Rule
}

// Roles are those that a key has, and when any key's last changed, as a number that rises.
type Roles struct {
	Of func(taskstate.PeerID) []admission.Role
	At uint64
}

// Barred is why a peer's owner does not let a version of the job in; "" if it is not known that it
// does not.
func (j *Job) Barred(peer taskstate.PeerID, o *Owner, body *taskstate.Job, roles Roles) string {
	if r, ok := j.refused[peer]; ok && r.body == body && r.at == o.at {
		return r.no
	}
	return j.judge(peer, o, body, roles).no
}

// judge asks the policy that a peer offers, once.
func (j *Job) judge(peer taskstate.PeerID, o *Owner, body *taskstate.Job, roles Roles) word {
	if o.policy == nil {
		return word{}
	}
	w, known := j.told[peer]
	if known && w.body == body && w.at == o.at && w.who == roles.At {
		return w
	}
	claim := policy.ClaimOf(body)
	claim.On, claim.Roles = peer, roles.Of(claim.By)
	_, why := policy.Decide(*o.policy, claim, policy.Load{})
	w = word{body: body, at: o.at, who: roles.At, no: why.Text, rule: policy.Match(*o.policy, claim)}
	if j.told == nil {
		j.told = map[taskstate.PeerID]word{}
	}
	j.told[peer] = w
	return w
}

// Room is how many more tasks of the job the peer's owner lets its key have there, of which has is
// asked how much it has; -1: as many as there are.
func (j *Job) Room(peer taskstate.PeerID, o *Owner, body *taskstate.Job, roles Roles, has func(by taskstate.PeerID) policy.Load) int {
	w := j.judge(peer, o, body, roles)
	if w.rule == nil || w.rule.Limits == (policy.Limits{}) {
		return -1
	}
	return w.rule.Limits.Room(body.Resources, has(policy.ClaimOf(body).By))
}

// Refuses notes that a peer refused a version of the job, and why.
func (j *Job) Refuses(peer taskstate.PeerID, o *Owner, body *taskstate.Job, why string) {
	if j.refused == nil {
		j.refused = map[taskstate.PeerID]word{}
	}
	j.refused[peer] = word{body: body, at: o.at, no: cmp.Or(why, "its owner does not let it run there")}
}

// Some tells whether some peer may not let the job in where others of its kind would find room.
func (j *Job) Some() bool { return len(j.refused) > 0 || len(j.told) > 0 }

// Forget has refusals count no more: a person asks again.
func (j *Job) Forget() { j.refused = nil }
