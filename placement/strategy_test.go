package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"

	"pgregory.net/rapid"
)

// at puts a peer into a zone; "" into none.
func at(zone string) func(*placement.Peer) {
	return func(p *placement.Peer) {
		p.Facts = &constraint.Facts{Labels: map[string]string{}}
		if zone != "" {
			p.Facts.Labels["zone"] = zone
		}
	}
}

func TestOverSpreadsFirstOverTheZones(t *testing.T) {
	ps := []placement.Peer{with("a", at("east")), with("b", at("west")), with("c", at("west")), with("d", at("west")), with("e", at(""))}
	for i := range ps {
		ps[i].Offer, ps[i].Free = cpus(9), cpus(9)
	}
	need := placement.Need{Tasks: 9, Resources: cpus(1), Over: over(t, "peer.label.zone")}
	if got := fmt.Sprint(placement.Place(need, ps, 3).Counts); got != "[3 1 1 1 3]" {
		t.Errorf("counts %v", got)
	}
	ps[0].Free = cpus(1) // what east cannot take goes to the others
	if got := fmt.Sprint(placement.Place(need, ps, 3).Counts); got != "[1 1 1 2 4]" && got != "[1 1 2 1 4]" && got != "[1 2 1 1 4]" {
		t.Errorf("counts %v", got)
	}
}

func TestTasksOnPeersThatTakeNoMoreStillCountForTheirZone(t *testing.T) {
	two := func(p *placement.Peer) { p.OfJob = 2 }
	ps := []placement.Peer{with("a", at("east"), two, busy), with("b", at("east")), with("c", at("west"))}
	need := placement.Need{Tasks: 2, Resources: cpus(1), Over: over(t, "peer.label.zone")}
	if got := fmt.Sprint(placement.Place(need, ps, 3).Counts); got != "[0 0 2]" {
		t.Errorf("counts %v", got)
	}
}

func TestWhatMustWaitIsSpreadOverTheZonesToo(t *testing.T) {
	queue := func(p *placement.Peer) { p.Ahead = 10 }
	ps := []placement.Peer{with("a", at("east"), queue), with("b", at("west"), queue, busy)}
	plan := placement.Place(placement.Need{Tasks: 8, Resources: cpus(1), Over: over(t, "peer.label.zone")}, ps, 3)
	if fmt.Sprint(plan.Counts) != "[4 4]" || plan.Queued != 6 {
		t.Errorf("%+v", plan)
	}
}

func TestZonesDifferByAtMostOneWhereThereIsRoom(t *testing.T) {
	byZone := over(t, "peer.label.zone")
	rapid.Check(t, func(t *rapid.T) {
		zones := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 1, 9).Draw(t, "zones")
		ps := make([]placement.Peer, len(zones))
		for i, z := range zones {
			ps[i] = with(fmt.Sprint(i), at(z))
			ps[i].Offer, ps[i].Free = cpus(100), cpus(100)
		}
		need := placement.Need{Tasks: rapid.IntRange(0, 80).Draw(t, "tasks"), Resources: cpus(1), Over: byZone}
		plan := placement.Place(need, ps, rapid.Uint64().Draw(t, "seed"))
		perZone, low, high := map[string]int{}, map[string]int{}, map[string]int{}
		for i, n := range plan.Counts {
			z := zones[i]
			if _, known := low[z]; !known {
				low[z] = n
			}
			perZone[z], low[z], high[z] = perZone[z]+n, min(low[z], n), max(high[z], n)
		}
		for z, n := range perZone {
			for y, m := range perZone {
				if n-m > 1 || high[z]-low[z] > 1 {
					t.Fatalf("zones %q and %q: %v of %v", z, y, plan.Counts, zones)
				}
			}
		}
	})
}

func TestBinpackFillsTheFullestFirst(t *testing.T) {
	half := func(p *placement.Peer) { p.Offer, p.Free = cpus(8), cpus(4) }
	most := func(p *placement.Peer) { p.Offer, p.Free = cpus(4), cpus(1) }
	memory := func(p *placement.Peer) { p.Offer.Memory, p.Free.Memory = 10, 4 } // its cpus are idle
	ps := []placement.Peer{with("a"), with("b", half), with("c", most), with("d", memory)}
	for tasks, want := range []string{"[0 0 0 0]", "[0 0 1 0]", "[0 0 1 1]", "[0 0 1 2]", "[0 1 1 2]", "[0 2 1 2]", "[0 3 1 2]", "[0 4 1 2]", "[1 4 1 2]", "[2 4 1 2]", "[2 4 1 2]"} {
		if got := fmt.Sprint(placement.Place(placement.Need{Tasks: tasks, Resources: cpus(1), Strategy: taskstate.Binpack}, ps, 3).Counts); got != want {
			t.Errorf("%d tasks: %v, want %v", tasks, got, want)
		}
	}
}

func TestAmongEquallyFullPeersBinpackTakesTheOneWithMoreTasks(t *testing.T) {
	ps := []placement.Peer{with("a"), with("b", func(p *placement.Peer) { p.Total = 3 }), with("c")}
	for seed := range uint64(10) {
		if plan := placement.Place(placement.Need{Tasks: 2, Resources: cpus(1), Strategy: taskstate.Binpack}, ps, seed); fmt.Sprint(plan.Counts) != "[0 2 0]" {
			t.Errorf("%+v", plan)
		}
	}
}

func TestBinpackPutsNothingBehindOthersWhileAnotherPeerIsFree(t *testing.T) {
	queue := func(p *placement.Peer) { p.Ahead = 5 }
	ps := []placement.Peer{with("a", busy, queue), with("b", queue)}
	plan := placement.Place(placement.Need{Tasks: 4, Resources: cpus(1), Strategy: taskstate.Binpack}, ps, 3)
	if fmt.Sprint(plan.Counts) != "[2 2]" || plan.Queued != 2 {
		t.Errorf("%+v", plan)
	}
}

func TestBinpackLeavesNoRoomOnAFullerPeer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := oracle{job: anyJob.Draw(t, "job"), peers: anyPeers(8).Draw(t, "peers")}
		o.Strategy = taskstate.Binpack
		plan := placement.Place(o.Need, o.peers, rapid.Uint64().Draw(t, "seed"))
		if plan.Queued > 0 {
			return
		}
		o.counts = make([]int, len(o.peers)) // fullness before the plan
		for i, n := range plan.Counts {
			for j, p := range o.peers {
				if n > 0 && o.better(j, i) && o.fits(p, plan.Counts[j]+1, false) {
					t.Fatalf("peer %d got %v while the fuller peer %d has room: %+v", i, plan.Counts, j, o.peers)
				}
			}
		}
	})
}

func TestRandomGivesEveryPeerTheSameChance(t *testing.T) {
	ps := []placement.Peer{peer("a", 100_000), peer("b", 100_000), peer("c", 5), peer("d", 100_000)}
	for i := range ps {
		ps[i].Room = 1 << 30
	}
	need := placement.Need{Tasks: 30_005, Resources: cpus(1), Strategy: taskstate.Random}
	plan := placement.Place(need, ps, 11)
	for _, i := range []int{0, 1, 3} {
		if n := plan.Counts[i]; n < 9_600 || n > 10_400 { // five standard deviations
			t.Errorf("counts %v", plan.Counts)
		}
	}
	if plan.Counts[2] != 5 {
		t.Errorf("counts %v: c has room for five", plan.Counts)
	}
	first := map[string]int{}
	for seed := range uint64(400) {
		need.Tasks = 1
		first[fmt.Sprint(placement.Place(need, ps, seed).Counts)]++
	}
	for where, n := range first {
		if n < 60 || n > 140 || len(first) != 4 {
			t.Errorf("400 seeds chose %s %d times: %v", where, n, first)
		}
	}
}

func TestAnUnknownStrategySpreads(t *testing.T) {
	ps := []placement.Peer{with("a"), with("b")}
	plan := placement.Place(placement.Need{Tasks: 2, Resources: cpus(1), Strategy: "tomorrow"}, ps, 3)
	if fmt.Sprint(plan.Counts) != "[1 1]" || strings.Contains(plan.Reason, "tomorrow") {
		t.Errorf("%+v", plan)
	}
}
