package decide

import (
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/policy"
)

func TestWhatAPeersOwnerLeavesOpenIsSaidOfIt(t *testing.T) {
	hides := []string{taskstate.HoldsHide, taskstate.IsolateFS}
	for name, c := range map[string]struct {
		policy *policy.Policy
		want   []string
	}{
		"a peer that says nothing of a policy": {nil, nil},
		"one that does not say what holds":     {&policy.Policy{}, nil},
		"one that hides its folder":            {&policy.Policy{Holds: hides}, nil},
		"one whose tasks reach its key":        {&policy.Policy{Holds: []string{taskstate.IsolateFS}}, []string{api.TroubleExposed}},
		"one that takes unsigned jobs":         {&policy.Policy{Holds: hides, Unsigned: true}, []string{api.TroubleUnsigned}},
		"one of both kinds":                    {&policy.Policy{Holds: []string{taskstate.IsolateFS}, Unsigned: true}, []string{api.TroubleExposed, api.TroubleUnsigned}},
	} {
		var codes []string
		for _, x := range open(session.Offer{Policy: c.policy}) {
			codes = append(codes, x.Code)
		}
		if !slices.Equal(codes, c.want) {
			t.Errorf("%s: %v, want %v", name, codes, c.want)
		}
	}
}
