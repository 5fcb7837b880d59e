package placement_test

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

func cpus(n int64) taskstate.Resources { return taskstate.Resources{MilliCPU: n * 1000} }

// peer is an idle, ready peer with n cpus.
func peer(id string, n int64) placement.Peer {
	return placement.Peer{ID: id, Ready: true, Available: true, Offer: cpus(n), Free: cpus(n), Room: 4096}
}

func TestTasksSpreadOverThePeersWithTheFewestOfTheJob(t *testing.T) {
	a, b, c := peer("a", 4), peer("b", 4), peer("c", 4)
	a.OfJob, a.Free = 2, cpus(2)
	plan := placement.Place(placement.Need{Tasks: 5, Resources: cpus(1)}, []placement.Peer{a, b, c}, 1)
	if got := fmt.Sprint(plan.Counts); got != "[1 2 2]" && got != "[0 3 2]" && got != "[0 2 3]" {
		t.Errorf("counts %v", got)
	}
	if plan.Placed != 5 || plan.Reason != "" {
		t.Errorf("plan %+v", plan)
	}
}

func TestAmongEqualsTheLeastLoadedPeerGoesFirst(t *testing.T) {
	a, b := peer("a", 4), peer("b", 4)
	a.Total = 1
	for seed := range uint64(20) {
		if plan := placement.Place(placement.Need{Tasks: 1}, []placement.Peer{a, b}, seed); plan.Counts[1] != 1 {
			t.Fatalf("seed %d: %v", seed, plan.Counts)
		}
	}
}

func TestTiesAreBrokenBySeedAndTheSameSeedGivesTheSamePlan(t *testing.T) {
	ps := []placement.Peer{peer("a", 4), peer("b", 4), peer("c", 4)}
	seen := map[string]bool{}
	for seed := range uint64(50) {
		one := fmt.Sprint(placement.Place(placement.Need{Tasks: 1}, ps, seed).Counts)
		if again := fmt.Sprint(placement.Place(placement.Need{Tasks: 1}, ps, seed).Counts); again != one {
			t.Fatalf("seed %d gave %s, then %s", seed, one, again)
		}
		seen[one] = true
	}
	if len(seen) != 3 {
		t.Errorf("50 seeds chose only %v", seen)
	}
}

func TestFreePeersComeBeforeQueueingAheadOfNeed(t *testing.T) {
	a, b := peer("a", 1), peer("b", 4)
	a.Ahead, b.Ahead = 10, 10
	b.OfJob = 2
	plan := placement.Place(placement.Need{Tasks: 5, Resources: cpus(1)}, []placement.Peer{a, b}, 7)
	if plan.Counts[0] != 1 || plan.Counts[1] != 4 {
		t.Errorf("counts %v: queued on a while b was free", plan.Counts)
	}
}

func TestAPeerThatQueuesTasksTakesOnlyWhatAheadLeaves(t *testing.T) {
	a := peer("a", 2)
	a.Ahead, a.Free = 3, cpus(-2) // two wait already
	plan := placement.Place(placement.Need{Tasks: 5, Resources: cpus(1)}, []placement.Peer{a}, 7)
	if plan.Placed != 1 {
		t.Errorf("placed %d, want 1", plan.Placed)
	}
}

func TestReasonsNameEveryFilterThatRefused(t *testing.T) {
	off := func(id string, change func(*placement.Peer)) placement.Peer {
		p := peer(id, 2)
		change(&p)
		return p
	}
	notReady := func(p *placement.Peer) { p.Ready = false }
	paused := func(p *placement.Peer) { p.Available = false }
	crowded := func(p *placement.Peer) { p.NoFiles = true }
	tiny := func(p *placement.Peer) { p.Offer, p.Free = cpus(1), cpus(1) }
	busy := func(p *placement.Peer) { p.Free = cpus(0) }
	taken := func(p *placement.Peer) { p.OfJob = 3 }
	full := func(p *placement.Peer) { p.Room = 0 }
	need := placement.Need{Tasks: 9, Resources: cpus(2), MaxPerPeer: 3}
	for _, c := range []struct {
		peers []placement.Peer
		want  string
	}{
		{nil, "no suitable peer (no peers)"},
		{[]placement.Peer{off("a", paused), off("b", paused), off("c", tiny)}, "no suitable peer (2 peers not available for new tasks; insufficient resources on 1 peer)"},
		{[]placement.Peer{off("a", crowded)}, "no suitable peer (no room for what its tasks leave on 1 peer)"},
		{[]placement.Peer{off("a", notReady)}, "no suitable peer (1 peer not ready)"},
		{[]placement.Peer{off("a", busy), off("b", taken), off("c", full)}, "no suitable peer (no free resources on 1 peer; max_per_peer reached on 1 peer; queue full on 1 peer)"},
		{[]placement.Peer{off("a", func(p *placement.Peer) { notReady(p); tiny(p) })}, "no suitable peer (1 peer not ready)"},
		{[]placement.Peer{peer("a", 2), off("b", tiny)}, "no more room on 1 peer; insufficient resources on 1 peer"},
	} {
		if got := placement.Place(need, c.peers, 0).Reason; got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

func TestEqualPeersDifferByAtMostOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ps := make([]placement.Peer, rapid.IntRange(1, 9).Draw(t, "peers"))
		for i := range ps {
			ps[i] = peer(fmt.Sprint(i), 8)
		}
		plan := placement.Place(placement.Need{Tasks: rapid.IntRange(0, 100).Draw(t, "tasks"), Resources: cpus(1)}, ps, 3)
		low, high := plan.Counts[0], plan.Counts[0]
		for _, n := range plan.Counts {
			low, high = min(low, n), max(high, n)
		}
		if high-low > 1 {
			t.Fatalf("counts %v", plan.Counts)
		}
	})
}
