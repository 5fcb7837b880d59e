package readers

import (
	"fmt"
	"testing"

	"covey/dispatch/ledger"
	"covey/p2p/admission"
	"covey/taskstate"
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
