package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/taskstate"
)

// votingPeer is one voter of a drawn cluster: what it would answer, and who gets that answer.
type votingPeer struct {
	server string
	probeAnswer
	mute bool // nobody hears its answers
}

func drawVoters(t *rapid.T) []votingPeer {
	vs := make([]votingPeer, rapid.SampledFrom([]int{1, 2, 3, 4, 5}).Draw(t, "voters"))
	for i := range vs {
		vs[i] = votingPeer{
			server:      fmt.Sprintf("v%d/1", i),
			probeAnswer: probeAnswer{Hears: rapid.Bool().Draw(t, "hears"), Last: rapid.Uint64Range(1, 3).Draw(t, "last")},
			mute:        rapid.Bool().Draw(t, "mute"),
		}
	}
	return vs
}

func answersTo(self int, vs []votingPeer) (out []probed) {
	for i, v := range vs {
		if i != self {
			out = append(out, probed{server: v.server, answered: !v.mute, probeAnswer: v.probeAnswer})
		}
	}
	return out
}

func TestNobodyStandsUnlessAMajorityHearsNoLeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := drawVoters(t)
		deaf := 1
		for _, v := range vs[1:] {
			if !v.mute && !v.Hears {
				deaf++
			}
		}
		stand, _ := judgeProbes(vs[0].server, vs[0].Last, answersTo(0, vs))
		if want := deaf > len(vs)/2; stand != want {
			t.Fatalf("of %d voters %d hear nobody: stands %v", len(vs), deaf, stand)
		}
	})
}

func TestNobodyStandsAgainstALeaderThatAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := append(drawVoters(t), votingPeer{server: "leader/1", probeAnswer: probeAnswer{Leads: true, Last: 1}})
		if stand, _ := judgeProbes(vs[0].server, vs[0].Last, answersTo(0, vs)); stand {
			t.Fatal("stands")
		}
	})
}

func TestWhoHearsNobodyStandsOneAfterTheOtherTheLongestLogFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := drawVoters(t)
		for i := range vs {
			vs[i].Hears, vs[i].mute = false, false
		}
		order := slices.Clone(vs)
		slices.SortFunc(order, func(a, b votingPeer) int {
			return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.server, b.server))
		})
		for i, v := range vs {
			stand, rank := judgeProbes(v.server, v.Last, answersTo(i, vs))
			if !stand || order[rank].server != v.server {
				t.Fatalf("%s stands %v as number %d of %v", v.server, stand, rank, order)
			}
		}
	})
}

func TestASuspicionGoesToAFewVotersAndToWhomItIsOfOnlyForWantOfOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		voters := drawVoters(t)
		suspect := rapid.IntRange(-1, len(voters)-1).Draw(t, "suspect")
		ids, who := []taskstate.PeerID{}, taskstate.PeerID("nobody")
		for i, v := range voters {
			ids = append(ids, taskstate.PeerID(v.server))
			if i == suspect {
				who = ids[i]
			}
		}
		got := passedTo(slices.Clone(ids), who)
		if len(got) != min(len(ids), passTo) || len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) {
			t.Fatalf("of %v, %v are told", ids, got)
		}
		if slices.Contains(got, who) && len(ids) > passTo {
			t.Fatalf("%s itself is told, though there are %v", who, ids)
		}
	})
}
