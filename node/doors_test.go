package node

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/membership"
)

func TestANewcomerIsToldOfFewerAbsentMembersThanItTriesAtOnce(t *testing.T) {
	for n, want := range map[int]int{0: 0, 3: 3, 7: 7, 40: 7} {
		v := &membership.View{Members: []membership.Member{
			{ID: "here", Addrs: []string{"/mem/here"}, Verdict: membership.Alive}, {ID: "nowhere", Verdict: membership.Dead},
		}}
		for i := range n {
			v.Members = append(v.Members, membership.Member{ID: fmt.Sprint(i), Addrs: []string{fmt.Sprint("/mem/", i)}, Verdict: membership.Dead})
		}
		told := map[string]bool{}
		for _, p := range away(v) {
			if p.ID == "here" || len(p.Addrs) != 1 || p.Addrs[0] != "/mem/"+p.ID {
				t.Errorf("told of %+v", p)
			}
			told[p.ID] = true
		}
		if len(told) != want || want >= membership.ReachAtOnce {
			t.Errorf("of %d it is told of %d", n, len(told))
		}
	}
}
