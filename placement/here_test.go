package placement_test

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"

	"pgregory.net/rapid"
)

// Acceptance case 28: where the data is decides among equals, and among them alone.
func TestAmongPeersThatAreEquallyGoodTheOneThatKeepsMostOfTheInputsIsTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := oracle{job: anyJob.Draw(t, "job"), peers: anyPeers(8).Draw(t, "peers")}
		o.Tasks, o.Over = 1, constraint.Key{}
		if o.Strategy == taskstate.Random {
			o.Strategy = taskstate.Spread
		}
		o.counts = make([]int, len(o.peers))
		plan := placement.Place(o.Need, o.peers, rapid.Uint64().Draw(t, "seed"))
		for i, n := range plan.Counts {
			if n == 0 {
				continue
			}
			for j, p := range o.peers {
				if !o.fits(p, 1, plan.Queued > 0) {
					continue
				}
				if o.better(j, i) || !o.better(i, j) && p.Here > o.peers[i].Here {
					t.Fatalf("it goes to %+v, not to %+v", o.peers[i], p)
				}
			}
		}
	})
}

func TestPeersThatDifferOnlyInWhatTheyKeepGetTasksInThatOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, j := anyPeer.Draw(t, "peer"), anyJob.Draw(t, "job")
		p.Facts = &constraint.Facts{}
		j.Constraints, j.Only = nil, ""
		if j.Strategy == taskstate.Random {
			j.Strategy = taskstate.Binpack
		}
		peers := make([]placement.Peer, rapid.IntRange(1, 6).Draw(t, "peers"))
		for i := range peers {
			peers[i] = p
			peers[i].ID, peers[i].Here = fmt.Sprintf("peer-%d", i), rapid.Int64Range(0, 3).Draw(t, "here")
		}
		plan := placement.Place(j.Need, peers, rapid.Uint64().Draw(t, "seed"))
		for i := range peers {
			for k := range peers {
				if peers[i].Here > peers[k].Here && plan.Counts[i] < plan.Counts[k] {
					t.Fatalf("who keeps %d gets %d tasks, who keeps %d gets %d", peers[i].Here, plan.Counts[i], peers[k].Here, plan.Counts[k])
				}
			}
		}
	})
}

func TestOfTwoZonesThatAreEquallyGoodTheOneWhereTheInputsAreIsTaken(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5} {
		var peers []placement.Peer
		for i, zone := range []string{"east", "east", "west", "west"} {
			peers = append(peers, placement.Peer{ID: fmt.Sprint("peer-", i), Ready: true, Available: true, Room: 9, Facts: &constraint.Facts{Labels: map[string]string{"zone": zone}}})
		}
		peers[3].Here = 1
		plan := placement.Place(placement.Need{Tasks: 1, Over: over(t, "peer.label.zone")}, peers, seed)
		if plan.Counts[3] != 1 {
			t.Fatalf("seed %d: %v", seed, plan.Counts)
		}
	}
}
