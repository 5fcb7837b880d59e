package placement_test

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// cluster is n peers in ten zones, all different, with room for what is asked in the benchmarks.
func cluster(n, room int) []placement.Peer {
	ps := make([]placement.Peer, n)
	for i := range ps {
		ps[i] = peer(fmt.Sprintf("12D3KooWPeerOfTheFlock%030d", i), 64)
		ps[i].OfJob, ps[i].Total, ps[i].Ahead, ps[i].Room = i%17, i%29, room, room
		ps[i].Facts = &constraint.Facts{
			ID: ps[i].ID, Name: fmt.Sprintf("server-%d", i), OS: "linux", Arch: "amd64", MilliCPU: 64_000, Memory: 64 << 30,
			Labels: map[string]string{"zone": fmt.Sprintf("zone-%d", i%10), "disk": "ssd", "rack": fmt.Sprint(i / 40), "gen": fmt.Sprint(i % 7)},
		}
	}
	return ps
}

// five constraints that most peers meet.
func five(b *testing.B) []constraint.Constraint {
	return constraints(b, "peer.os == linux", "peer.arch in (amd64, arm64)", "peer.memory >= 8GiB", "peer.label.disk == ssd", "peer.label.gen >= 1")
}

func BenchmarkPlace(b *testing.B) {
	for _, size := range []struct{ peers, tasks int }{{1_000, 1}, {1_000, 10_000}, {1_000, 100_000}, {10_000, 100_000}, {10_000, 1_000_000}} {
		ps := cluster(size.peers, 1000)
		for name, need := range map[string]placement.Need{
			"plain":   {},
			"strict":  {Constraints: five(b), Over: over(b, "peer.label.zone")},
			"known":   {Constraints: five(b), Over: over(b, "peer.label.zone"), Matcher: &placement.Matcher{}},
			"binpack": {Strategy: taskstate.Binpack},
			"random":  {Strategy: taskstate.Random},
		} {
			need.Tasks, need.Resources = size.tasks, cpus(1)
			b.Run(fmt.Sprintf("peers=%d/tasks=%d/%s", size.peers, size.tasks, name), func(b *testing.B) {
				b.ReportAllocs()
				before := processorTime()
				for b.Loop() {
					if plan := placement.Place(need, ps, 5); plan.Placed != size.tasks {
						b.Fatal(plan.Reason)
					}
				}
				b.ReportMetric(float64(processorTime()-before)/1e6/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// Turn by turn is how the coordinator asks: a few hundred tasks at a time, the peers a little
// fuller each time.
func BenchmarkPlaceInTurns(b *testing.B) {
	need := placement.Need{Tasks: 256, Resources: cpus(1), Constraints: five(b), Over: over(b, "peer.label.zone"), Matcher: &placement.Matcher{}}
	for b.Loop() {
		b.StopTimer()
		ps := cluster(1_000, 1000)
		b.StartTimer()
		for left := 10_000; left > 0; left -= 256 {
			plan := placement.Place(need, ps, uint64(left))
			for i, n := range plan.Counts {
				ps[i].OfJob, ps[i].Total, ps[i].Room = ps[i].OfJob+n, ps[i].Total+n, ps[i].Room-n
				ps[i].Free.MilliCPU -= int64(n) * 1000
			}
		}
	}
}

func BenchmarkRebalance(b *testing.B) {
	for _, need := range []placement.Need{{}, {Over: over(b, "peer.label.zone")}} {
		ps := cluster(1_000, 1000)
		need.Resources = cpus(1)
		b.Run("over="+need.Over.String(), func(b *testing.B) {
			for b.Loop() {
				placement.Rebalance(need, ps)
			}
		})
	}
}
