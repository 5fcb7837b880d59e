package readers

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

func TestOfWhoIsNoMemberNothingIsKept(t *testing.T) {
	replica := ledger.NewReplica()
	member := admission.Entry{Cluster: "simsimsimsimsims", Peer: "me", Name: "me", Roles: admission.AllRoles(), By: "me"}
	replica.Apply(ledger.Entry{Index: 1, Epoch: taskstate.At(1, 1), Stamp: 1, By: "me", Commands: []ledger.Command{
		{Found: &ledger.Found{Cluster: member.Cluster, Generation: 1, Founder: member}},
	}})
	g := NewGiven(replica, func() []string { return []string{"me"} })
	if got := g.Roles("me"); len(got) != len(admission.AllRoles()) {
		t.Errorf("the founder has %v", got)
	}
	for i := range 1000 {
		if got := g.Roles(fmt.Sprint("stranger ", i)); got != nil {
			t.Fatalf("a stranger has %v", got)
		}
	}
	if len(g.of) != 1 {
		t.Errorf("the roles of %d peers are kept", len(g.of))
	}
}

func TestRolesAreWorkedOutAnewOnlyWhereAnAdmissionMayChangeThem(t *testing.T) {
	replica := ledger.NewReplica()
	checks := 0
	g := NewGiven(replica, func() []string { checks++; return []string{"me"} })
	defer replica.Observe(g.Hear)()
	index := uint64(0)
	decide := func(c ledger.Command) {
		index++
		replica.Apply(ledger.Entry{Index: index, Epoch: taskstate.At(1, 1), Stamp: 1, By: "me", Commands: []ledger.Command{c}})
	}
	entry := func(peer string) admission.Entry {
		return admission.Entry{Cluster: "simsimsimsimsims", Peer: peer, Name: peer, Roles: admission.AllRoles(), By: "me"}
	}
	admit := func(peer, by string) {
		c := ledger.Command{Admit: &ledger.Admit{Entry: entry(peer)}}
		if by != "" {
			c.Act = &act.Act{By: by, At: 1, Until: 2, N: index, Sig: []byte("signed")}
		}
		decide(c)
	}
	anew := func(peer string, want bool, given bool) {
		t.Helper()
		before := checks
		roles := g.Roles(peer)
		if got := checks > before; got != want || slices.Contains(roles, admission.Read) || (len(roles) > 0) != given {
			t.Errorf("%s has %v, worked out anew: %t, want %t", peer, roles, got, want)
		}
	}
	decide(ledger.Command{Found: &ledger.Found{Cluster: "simsimsimsimsims", Generation: 1, Founder: entry("me")}})
	admit("a", "") // by the word of the coordinator alone
	admit("b", "a")
	anew("b", true, false)
	admit("newcomer", "me")
	anew("b", false, false)
	anew("newcomer", true, true)
	admit("a", "me") // now somebody says so, and b has its roles from a
	anew("b", true, true)
	anew("newcomer", true, true)
	admit("newcomer", "b")
	anew("b", false, true)
	anew("newcomer", true, true)
}
