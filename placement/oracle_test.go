package placement_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"

	"pgregory.net/rapid"
)

// oracle decides slowly and plainly: one task after the other, looking at every peer each time.
type oracle struct {
	job
	peers  []placement.Peer
	counts []int
}

// lasts tells whether an idle p would do.
func (o *oracle) lasts(p placement.Peer) bool {
	for _, r := range o.rules {
		if !rules[r].holds(p.Facts) {
			return false
		}
	}
	return (o.Only == "" || o.Only == p.ID) && p.Ready && p.Available && o.Resources.Fits(p.Offer)
}

// shunned tells whether p failed too often and there is another.
func (o *oracle) shunned(p placement.Peer) bool {
	return p.Faulty && slices.ContainsFunc(o.peers, func(q placement.Peer) bool {
		return !q.Faulty && o.lasts(q) && (o.MaxPerPeer == 0 || q.OfJob < o.MaxPerPeer)
	})
}

// fits tells whether n tasks of the job may be put on p now, or with ahead also behind others.
func (o *oracle) fits(p placement.Peer, n int, ahead bool) bool {
	free, need := kinds(p.Free), kinds(o.Resources)
	for kind, each := range need {
		if ahead {
			free[kind] += each * int64(p.Ahead)
		}
		if free[kind] < each*int64(n) {
			return false
		}
	}
	return o.lasts(p) && !o.shunned(p) && n <= p.Room && (o.MaxPerPeer == 0 || p.OfJob+n <= o.MaxPerPeer)
}

// group is how many tasks of the job are under p's value of the key.
func (o *oracle) group(p placement.Peer) int {
	n := 0
	for i, q := range o.peers {
		if zone(q) == zone(p) {
			n += q.OfJob + o.counts[i]
		}
	}
	return n
}

func zone(p placement.Peer) string { return p.Facts.Labels["zone"] }

// better tells whether the strategy takes peer i before j.
func (o *oracle) better(i, j int) bool {
	a, b := o.peers[i], o.peers[j]
	switch {
	case o.Strategy == taskstate.Binpack:
		x, y := o.share(i), o.share(j)
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.Total+o.counts[j], a.Total+o.counts[i])) < 0
	case o.Strategy == taskstate.Random:
		return false
	case o.Over != constraint.Key{} && o.group(a) != o.group(b):
		return o.group(a) < o.group(b)
	}
	return cmp.Or(cmp.Compare(a.OfJob+o.counts[i], b.OfJob+o.counts[j]), cmp.Compare(a.Total+o.counts[i], b.Total+o.counts[j])) < 0
}

// share is how full a peer is by now.
func (o *oracle) share(i int) float64 {
	p, most := o.peers[i], 0.0
	offer, free, need := kinds(p.Offer), kinds(p.Free), kinds(o.Resources)
	for kind, n := range offer {
		if kind == "cpu" || kind == "memory" || need[kind] > 0 {
			most = max(most, float64(n-free[kind]+need[kind]*int64(o.counts[i]))/float64(n))
		}
	}
	return most
}

func (o *oracle) place() (placed int) {
	o.counts = make([]int, len(o.peers))
	for ; placed < o.Tasks; placed++ {
		best := -1
		for _, ahead := range []bool{false, true} {
			for i, p := range o.peers {
				if o.fits(p, o.counts[i]+1, ahead) && (best < 0 || o.better(i, best)) {
					best = i
				}
			}
			if best >= 0 {
				break
			}
		}
		if best < 0 {
			break
		}
		o.counts[best]++
	}
	return placed
}

// heights are the numbers of tasks of the job on the peers, or under the values, sorted: all that
// ties cannot change.
func (o *oracle) heights(counts []int) []int {
	if o.Over == (constraint.Key{}) {
		var hs []int
		for i, n := range counts {
			hs = append(hs, o.peers[i].OfJob+n)
		}
		return slices.Sorted(slices.Values(hs))
	}
	zones := map[string]int{}
	for i, n := range counts {
		zones[zone(o.peers[i])] += o.peers[i].OfJob + n
	}
	return slices.Sorted(maps.Values(zones))
}

func TestAPlanIsAsGoodAsPlacingOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := oracle{job: anyJob.Draw(t, "job"), peers: anyPeers(8).Draw(t, "peers")}
		if some(t, "no queues", 2) {
			for i := range o.peers {
				o.peers[i].Ahead = 0
			}
		}
		plan := placement.Place(o.Need, o.peers, rapid.Uint64().Draw(t, "seed"))
		if placed := o.place(); plan.Placed != placed || (plan.Reason == "") != (placed == o.Tasks) {
			t.Fatalf("placed %d (%v, %q), one by one %d (%v)", plan.Placed, plan.Counts, plan.Reason, placed, o.counts)
		}
		// Ties may be broken differently, and a tie in the first round can shift the limits of the
		// second: only plans without queueing must agree to the level. By lot there are no levels.
		if o.Strategy == taskstate.Random || plan.Queued > 0 {
			return
		}
		if got, want := o.heights(plan.Counts), o.heights(o.counts); o.Strategy != taskstate.Binpack && !slices.Equal(got, want) {
			t.Fatalf("heights %v of %v, one by one %v of %v", got, plan.Counts, want, o.counts)
		}
	})
}

func TestAPlanNeverPromisesMoreThanThereIsNorBreaksARule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := oracle{job: anyJob.Draw(t, "job"), peers: anyPeers(8).Draw(t, "peers")}
		plan := placement.Place(o.Need, o.peers, rapid.Uint64().Draw(t, "seed"))
		sum, queued := 0, 0
		for i, n := range plan.Counts {
			if sum += n; n < 0 || n > 0 && !o.fits(o.peers[i], n, true) {
				t.Fatalf("%d tasks on %+v", n, o.peers[i])
			}
			fit := 0
			for fit < n && o.fits(o.peers[i], fit+1, false) {
				fit++
			}
			queued += n - fit
		}
		if sum != plan.Placed || queued != plan.Queued {
			t.Fatalf("%+v, but %d are placed and %d queue", plan, sum, queued)
		}
		for i, p := range o.peers {
			if queued > 0 && o.fits(p, plan.Counts[i]+1, false) {
				t.Fatalf("%d tasks queue while there is room on %+v", queued, p)
			}
		}
	})
}

func TestReasonsAddUpToThePeersThereAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := oracle{job: anyJob.Draw(t, "job"), peers: anyPeers(8).Draw(t, "peers")}
		o.Tasks += 500 // more than there is room for, unless they need nothing
		plan := placement.Place(o.Need, o.peers, 1)
		sum := plan.Suitable
		for _, r := range plan.Refused {
			if sum += r.Peers; r.Peers < 1 || r.Text == "" {
				t.Fatalf("%+v", plan.Refused)
			}
		}
		there := len(o.peers)
		if o.Only != "" {
			there = len(slices.DeleteFunc(slices.Clone(o.peers), func(p placement.Peer) bool { return p.ID != o.Only }))
		}
		if sum != there {
			t.Fatalf("%d of %d peers: %+v", sum, there, plan)
		}
	})
}

func TestAPlanDependsOnTheSeedAndNotOnTheOrderOfThePeers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, ps, seed := anyJob.Draw(t, "job"), anyPeers(8).Draw(t, "peers"), rapid.Uint64().Draw(t, "seed")
		plan := placement.Place(j.Need, ps, seed)
		order := rapid.Permutation(ps).Draw(t, "order")
		other := placement.Place(j.Need, order, seed)
		if other.Reason != plan.Reason || other.Queued != plan.Queued {
			t.Fatalf("%+v, in another order %+v", plan, other)
		}
		for i, n := range other.Counts {
			at := slices.IndexFunc(ps, func(p placement.Peer) bool { return p.ID == order[i].ID })
			if plan.Counts[at] != n {
				t.Fatalf("%s gets %d, in another order %d", order[i].ID, plan.Counts[at], n)
			}
		}
	})
}
