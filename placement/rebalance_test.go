package placement_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// holding is a peer with n tasks of the job, of one cpu each, and room for more.
func holding(n, more int) func(*placement.Peer) {
	return func(p *placement.Peer) { p.OfJob, p.Offer, p.Free = n, cpus(int64(n+more)), cpus(int64(more)) }
}

func moved(ms []placement.Move) int {
	n := 0
	for _, m := range ms {
		n += m.N
	}
	return n
}

func TestANewPeerGetsItsShareWithAsFewMovesAsPossible(t *testing.T) {
	ps := []placement.Peer{with("a", holding(4, 4)), with("b", holding(3, 4)), with("c", holding(0, 8))}
	got := placement.Rebalance(placement.Need{Resources: cpus(1)}, ps)
	if want := []placement.Move{{From: "a", To: "c", N: 1}, {From: "b", To: "c", N: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	ps[2].Free = cpus(1)
	got = placement.Rebalance(placement.Need{Resources: cpus(1)}, ps)
	if want := []placement.Move{{From: "a", To: "c", N: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("with room for one: %v", got)
	}
}

func TestWhatIsEvenStaysWhereItIs(t *testing.T) {
	ps := []placement.Peer{with("a", holding(2, 9)), with("b", holding(3, 9)), with("c", holding(2, 9))}
	if got := placement.Rebalance(placement.Need{Resources: cpus(1)}, ps); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := placement.Rebalance(placement.Need{}, nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestPeersThatWouldBeRefusedNeitherGiveNorTake(t *testing.T) {
	for name, off := range map[string]func(*placement.Peer){
		"not ready": func(p *placement.Peer) { p.Ready = false }, "paused": func(p *placement.Peer) { p.Available = false }, "another system": mac,
		"too small": func(p *placement.Peer) { p.Offer, p.Free = cpus(0), cpus(0) },
	} {
		need := placement.Need{Resources: cpus(1), Constraints: constraints(t, "peer.os == linux")}
		for _, n := range []int{0, 9} {
			ps := []placement.Peer{with("a", holding(4, 4)), with("b", holding(4, 4)), with("c", holding(n, 9), off)}
			if got := placement.Rebalance(need, ps); len(got) != 0 {
				t.Errorf("%s with %d: %v", name, n, got)
			}
		}
	}
}

func TestAPeerWhereTheJobFailedTooOftenGivesButDoesNotTake(t *testing.T) {
	ps := []placement.Peer{with("a", holding(4, 4)), with("b", holding(0, 4), faulty)}
	if got := placement.Rebalance(placement.Need{Resources: cpus(1)}, ps); len(got) != 0 {
		t.Errorf("%v", got)
	}
	ps = []placement.Peer{with("a", holding(4, 4), faulty), with("b", holding(0, 4))}
	if got := moved(placement.Rebalance(placement.Need{Resources: cpus(1)}, ps)); got != 2 {
		t.Errorf("%d moved", got)
	}
	ps = []placement.Peer{with("a", holding(4, 4), faulty), with("b", holding(0, 4), faulty)}
	if got := moved(placement.Rebalance(placement.Need{Resources: cpus(1)}, ps)); got != 2 {
		t.Errorf("%d moved where all are alike", got)
	}
}

func TestZonesAreEvenedOutBeforePeers(t *testing.T) {
	need := placement.Need{Resources: cpus(1), Over: over(t, "peer.label.zone")}
	ps := []placement.Peer{with("a", at("east"), holding(2, 9)), with("b", at("west"), holding(2, 9)), with("c", at("west"), holding(2, 9))}
	if got, want := placement.Rebalance(need, ps), []placement.Move{{From: "c", To: "a", N: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	ps[0].Available = false // its tasks stay, and count for east
	ps = append(ps, with("d", at("east"), holding(0, 9)))
	if got, want := placement.Rebalance(need, ps), []placement.Move{{From: "c", To: "d", N: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func TestOnlySpreadHasABalance(t *testing.T) {
	ps := []placement.Peer{with("a", holding(4, 4)), with("b", holding(0, 4))}
	for _, need := range []placement.Need{{Strategy: taskstate.Binpack}, {Strategy: taskstate.Random}, {Only: "a"}} {
		if got := placement.Rebalance(need, ps); len(got) != 0 {
			t.Errorf("%+v: %v", need, got)
		}
	}
	if got := moved(placement.Rebalance(placement.Need{Strategy: taskstate.Spread}, ps)); got != 2 {
		t.Errorf("%d moved", got)
	}
}

// balance tries every way to distribute the tasks and tells how few moves the best ones take. Best
// is: the values of the key as even as can be, then the peers of each. Uneven is the sum of
// squares, which is least where no task can go from a higher to a lower place.
type balance struct {
	peers []placement.Peer
	most  []int
	over  bool
}

func (b *balance) zoneOf(i int) string {
	if b.over {
		return zone(b.peers[i])
	}
	return fmt.Sprint(i)
}

func (b *balance) unevenZones(want []int) int {
	zones := map[string]int{}
	for i, n := range want {
		zones[b.zoneOf(i)] += n
	}
	sum := 0
	for _, n := range zones {
		sum += n * n
	}
	return sum
}

// settled tells whether no task can go to a lower peer of the same zone.
func (b *balance) settled(want []int) bool {
	for i := range want {
		for j := range want {
			if b.zoneOf(i) == b.zoneOf(j) && want[i] > want[j]+1 && want[j] < b.most[j] {
				return false
			}
		}
	}
	return true
}

func (b *balance) fewestMoves() (unevenness, moves int) {
	want := make([]int, len(b.peers))
	best := [2]int{1 << 30, 1 << 30}
	var try func(i, left int)
	try = func(i, left int) {
		if i < len(want) {
			for want[i] = 0; want[i] <= min(left, b.most[i]); want[i]++ {
				try(i+1, left-want[i])
			}
			want[i] = 0
			return
		}
		if left > 0 || !b.settled(want) {
			return
		}
		score := [2]int{b.unevenZones(want), 0}
		for i, n := range want {
			score[1] += max(0, b.peers[i].OfJob-n)
		}
		if slices.Compare(score[:], best[:]) < 0 {
			best = score
		}
	}
	sum := 0
	for _, p := range b.peers {
		sum += p.OfJob
	}
	try(0, sum)
	return best[0], best[1]
}

func TestRebalancingIsAsEvenAsCanBeWithTheFewestMoves(t *testing.T) {
	byZone := over(t, "peer.label.zone")
	rapid.Check(t, func(t *rapid.T) {
		need := placement.Need{Resources: cpus(1), MaxPerPeer: rapid.SampledFrom([]int{0, 0, 2, 3}).Draw(t, "max")}
		b := balance{peers: make([]placement.Peer, rapid.IntRange(1, 5).Draw(t, "peers")), over: rapid.Bool().Draw(t, "over")}
		if b.over {
			need.Over = byZone
		}
		for i := range b.peers {
			more, z := rapid.IntRange(0, 3).Draw(t, "more"), rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "zone")
			b.peers[i] = with(fmt.Sprint(i), at(z), holding(rapid.IntRange(0, 4).Draw(t, "has"), more))
			b.peers[i].Room, b.peers[i].Total = rapid.IntRange(0, 4).Draw(t, "room"), rapid.IntRange(4, 6).Draw(t, "total")
			most := b.peers[i].OfJob + min(more, b.peers[i].Room)
			if need.MaxPerPeer > 0 {
				most = max(b.peers[i].OfJob, min(most, need.MaxPerPeer))
			}
			b.most = append(b.most, most)
		}
		want := make([]int, len(b.peers))
		for i, p := range b.peers {
			want[i] = p.OfJob
		}
		moves := placement.Rebalance(need, b.peers)
		gives, takes := map[string]bool{}, map[string]bool{}
		for _, m := range moves {
			from, to := int(m.From[0]-'0'), int(m.To[0]-'0')
			want[from], want[to] = want[from]-m.N, want[to]+m.N
			if gives[m.From], takes[m.To] = true, true; m.N < 1 || takes[m.From] || gives[m.To] {
				t.Fatalf("%v", moves)
			}
		}
		for i, n := range want {
			if n < 0 || n > b.most[i] {
				t.Fatalf("%v gives peer %d %d tasks, it can have %d", moves, i, n, b.most[i])
			}
		}
		unevenness, fewest := b.fewestMoves()
		if moved(moves) != fewest || b.unevenZones(want) != unevenness || !b.settled(want) {
			t.Fatalf("%v makes %v with %d moves; %d would do for an unevenness of %d", moves, want, moved(moves), fewest, unevenness)
		}
		if order := rapid.Permutation(b.peers).Draw(t, "order"); !reflect.DeepEqual(placement.Rebalance(need, order), moves) {
			t.Fatalf("other moves in another order than %v", moves)
		}
	})
}

func TestRebalancingTwiceMovesNothingMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, ps := anyJob.Draw(t, "job"), anyPeers(8).Draw(t, "peers")
		for i := range ps { // what the tasks take is promised
			for range ps[i].OfJob {
				ps[i].Free = ps[i].Free.Sub(j.Resources)
			}
		}
		for _, m := range placement.Rebalance(j.Need, ps) {
			for i := range ps {
				switch n := int64(m.N); ps[i].ID {
				case m.From:
					ps[i].OfJob, ps[i].Free, ps[i].Room = ps[i].OfJob-m.N, ps[i].Free.Add(j.Resources.Times(n)), ps[i].Room+m.N
				case m.To:
					ps[i].OfJob, ps[i].Free, ps[i].Room = ps[i].OfJob+m.N, ps[i].Free.Sub(j.Resources.Times(n)), ps[i].Room-m.N
				}
			}
		}
		if again := placement.Rebalance(j.Need, ps); len(again) != 0 {
			t.Fatalf("%+v", again)
		}
	})
}
