package placement_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"

	"pgregory.net/rapid"
)

// with is a peer with two cpus, changed.
func with(id string, changes ...func(*placement.Peer)) placement.Peer {
	p := peer(id, 2)
	p.Facts = &constraint.Facts{OS: "linux", Arch: "amd64", Labels: map[string]string{"zone": "west"}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func faulty(p *placement.Peer)   { p.Faulty = true }
func idle(p *placement.Peer)     { p.Free = p.Offer }
func busy(p *placement.Peer)     { p.Free = cpus(0) }
func crowded(p *placement.Peer)  { p.Room = 0 }
func mac(p *placement.Peer)      { p.Facts = &constraint.Facts{OS: "darwin", Arch: "arm64"} }
func stranger(p *placement.Peer) { p.Facts = nil }

func counts(of map[string]int64) taskstate.Resources {
	return taskstate.Resources{Others: taskstate.CountsOf(of)}
}

func offering(offer, promised int64) func(*placement.Peer) {
	return func(p *placement.Peer) {
		p.Offer = p.Offer.Add(counts(map[string]int64{"gpus": offer}))
		p.Free = p.Free.Add(counts(map[string]int64{"gpus": offer - promised}))
	}
}

func TestReasonsNameTheConstraintAndTheCount(t *testing.T) {
	linux := constraints(t, "peer.label.zone != nowhere", "PEER.os=='linux'")
	gpus := counts(map[string]int64{"gpus": 2}).Add(cpus(1))
	for _, c := range []struct {
		need  placement.Need
		peers []placement.Peer
		want  string
	}{
		{placement.Need{Constraints: linux}, []placement.Peer{with("a", mac), with("b", mac)}, "no suitable peer (constraint peer.os == linux not met by 2 peers)"},
		{placement.Need{Constraints: linux}, []placement.Peer{with("a", stranger), with("b", mac)}, "no suitable peer (constraint peer.label.zone != nowhere not met by 1 peer; constraint peer.os == linux not met by 1 peer)"},
		{placement.Need{Constraints: linux, Resources: cpus(2)}, []placement.Peer{with("a", mac, busy), with("b", busy)}, "no suitable peer (constraint peer.os == linux not met by 1 peer; no free resources on 1 peer)"},
		{placement.Need{Resources: gpus}, []placement.Peer{with("a"), with("b", offering(1, 0))}, "no suitable peer (insufficient gpus on 2 peers)"},
		{placement.Need{Resources: gpus}, []placement.Peer{with("a", offering(2, 1)), with("b", offering(2, 0), busy)}, "no suitable peer (no free resources on 1 peer; no free gpus on 1 peer)"},
		{placement.Need{Resources: cpus(3).Add(gpus)}, []placement.Peer{with("a", offering(9, 0))}, "no suitable peer (insufficient resources on 1 peer)"},
		{placement.Need{Only: "c"}, []placement.Peer{with("a"), with("b")}, "no suitable peer (the only one it may run on is not here)"},
		{placement.Need{Only: "b"}, []placement.Peer{with("a"), with("b", crowded)}, "no suitable peer (queue full on 1 peer)"},
	} {
		c.need.Tasks = 1
		if got := placement.Place(c.need, c.peers, 0).Reason; got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

func TestRefusalsAreCountedOneByOne(t *testing.T) {
	ps := []placement.Peer{with("a"), with("b", faulty), with("c", mac), with("d", mac), with("e", crowded)}
	plan := placement.Place(placement.Need{Tasks: 5, Resources: cpus(1), Constraints: constraints(t, "peer.os == linux")}, ps, 0)
	want := []placement.Refusal{{Text: "constraint peer.os == linux not met by 2 peers", Peers: 2}, {Text: "failed too often on 1 peer", Peers: 1}, {Text: "queue full on 1 peer", Peers: 1}}
	if !reflect.DeepEqual(plan.Refused, want) || plan.Suitable != 1 || plan.Placed != 2 {
		t.Errorf("%+v", plan)
	}
	if want := "no more room on 1 peer; constraint peer.os == linux not met by 2 peers; failed too often on 1 peer; queue full on 1 peer"; plan.Reason != want {
		t.Errorf("%q", plan.Reason)
	}
}

func TestAPeerWhereTheJobFailedTooOftenIsAvoidedWhileAnotherWouldDo(t *testing.T) {
	three := func(p *placement.Peer) { p.OfJob = 3 }
	for name, c := range map[string]struct {
		other  placement.Peer
		counts string
		reason string
	}{
		"a free one":               {with("b"), "[0 2]", ""},
		"a busy one":               {with("b", busy), "[0 0]", "no suitable peer (no free resources on 1 peer; failed too often on 1 peer)"},
		"a full one":               {with("b", crowded), "[0 0]", "no suitable peer (failed too often on 1 peer; queue full on 1 peer)"},
		"one with its cap":         {with("b", three), "[2 0]", ""},
		"a busy one with its cap":  {with("b", three, busy), "[2 0]", ""},
		"one of another system":    {with("b", mac), "[2 0]", ""},
		"one that is not ready":    {with("b", func(p *placement.Peer) { p.Ready = false }), "[2 0]", ""},
		"one that failed as often": {with("b", faulty), "[1 1]", ""},
	} {
		need := placement.Need{Tasks: 2, Resources: cpus(1), MaxPerPeer: 3, Constraints: constraints(t, "peer.os == linux")}
		plan := placement.Place(need, []placement.Peer{with("a", faulty), c.other}, 1)
		if fmt.Sprint(plan.Counts) != c.counts || plan.Reason != c.reason {
			t.Errorf("beside %s: %v %q", name, plan.Counts, plan.Reason)
		}
	}
}

func TestAPinnedTaskGoesNowhereElse(t *testing.T) {
	ps := []placement.Peer{with("a"), with("b", faulty), with("c")}
	plan := placement.Place(placement.Need{Tasks: 1, Resources: cpus(1), Only: "b"}, ps, 0)
	if fmt.Sprint(plan.Counts) != "[0 1 0]" {
		t.Errorf("%+v", plan)
	}
}

func TestNamedCountsAreNotPromisedTwice(t *testing.T) {
	ps := []placement.Peer{with("a", offering(4, 1)), with("b", offering(8, 0), idle), with("c")}
	plan := placement.Place(placement.Need{Tasks: 9, Resources: counts(map[string]int64{"gpus": 2})}, ps, 0)
	if fmt.Sprint(plan.Counts) != "[1 4 0]" || plan.Reason != "no more room on 2 peers; insufficient gpus on 1 peer" {
		t.Errorf("%+v", plan)
	}
}

func TestAMatcherChangesNoAnswer(t *testing.T) {
	lists := [][]constraint.Constraint{
		constraints(t, "peer.os == linux"), constraints(t, "peer.os == darwin"), constraints(t, "peer.os == darwin", "peer.label.zone != west"), constraints(t, "peer.label.zone == west", "peer.os != plan9"), nil,
	}
	rapid.Check(t, func(t *rapid.T) {
		var m placement.Matcher
		ps := []placement.Peer{with("a"), with("b", mac), with("c", stranger), with("d")}
		need := placement.Need{Tasks: 99, Resources: cpus(1)}
		for range 20 {
			switch at := rapid.IntRange(0, 3).Draw(t, "peer"); rapid.IntRange(0, 3).Draw(t, "event") {
			case 0: // its facts change
				ps[at].Facts = anyFacts.Draw(t, "facts")
			case 1: // the peers change places
				ps[0], ps[at] = ps[at], ps[0]
			case 2: // another job is placed
				need.Constraints = rapid.SampledFrom(lists).Draw(t, "constraints")
			}
			n := rapid.IntRange(0, 4).Draw(t, "peers")
			need.Matcher = nil
			plain := placement.Place(need, ps[:n], 7)
			need.Matcher = &m
			if got := placement.Place(need, ps[:n], 7); !reflect.DeepEqual(got, plain) {
				t.Fatalf("%+v, without a matcher %+v", got, plain)
			}
		}
	})
}
