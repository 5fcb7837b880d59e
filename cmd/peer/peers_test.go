package main

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
)

func TestOnlyAnAdminIsToldToMakeATicketForAThirdSeat(t *testing.T) {
	for roles, told := range map[string]bool{"worker submit": false, "worker submit admin": true} {
		got := oneSeat(api.Peers{Coordinator: "a", Peers: []api.Peer{
			{ID: "a", Name: "alpha", Voter: true, Roles: []string{"voter", "admin"}},
			{ID: "b", Name: "beta", Roles: []string{"voter"}},
			{ID: "c", Name: "gamma", Self: true, Roles: strings.Fields(roles)},
		}})
		if !strings.HasPrefix(got, "only alpha holds a seat: all decisions are on its disk alone") || strings.Contains(got, "`peer ticket`") != told {
			t.Errorf("%s: %q", roles, got)
		}
	}
}
