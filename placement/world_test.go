package placement_test

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"

	"pgregory.net/rapid"
)

// rules are constraints together with what they mean.
var rules = []struct {
	text  string
	holds func(*constraint.Facts) bool
}{
	{"peer.os == linux", func(f *constraint.Facts) bool { return f.OS == "linux" }},
	{"peer.arch != arm64", func(f *constraint.Facts) bool { return f.Arch != "arm64" }},
	{"peer.label.zone in (east, west)", func(f *constraint.Facts) bool { return f.Labels["zone"] == "east" || f.Labels["zone"] == "west" }},
	{"peer.label.zone != north", func(f *constraint.Facts) bool { return f.Labels["zone"] != "north" }},
	{"peer.memory >= 5", func(f *constraint.Facts) bool { return f.Memory >= 5 }},
}

func constraints(t testing.TB, texts ...string) []constraint.Constraint {
	t.Helper()
	cs, err := constraint.ParseAll(texts)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func over(t testing.TB, key string) constraint.Key {
	t.Helper()
	k, err := constraint.ParseOver(key)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// job is a need whose constraints are known by rule.
type job struct {
	placement.Need
	rules []int
}

func some(t *rapid.T, label string, most int) bool {
	return rapid.IntRange(1, most).Draw(t, label) == 1
}

var anyResources = rapid.Custom(func(t *rapid.T) taskstate.Resources {
	r := taskstate.Resources{MilliCPU: 500 * rapid.Int64Range(0, 4).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 3).Draw(t, "memory")}
	if some(t, "writes", 3) {
		r.Disk = rapid.Int64Range(0, 3).Draw(t, "disk")
	}
	if some(t, "counted", 3) {
		r.Others = taskstate.CountsOf(map[string]int64{"gpus": rapid.Int64Range(0, 2).Draw(t, "gpus"), "keys": rapid.Int64Range(0, 2).Draw(t, "keys")})
	}
	return r
})

var anyFacts = rapid.Custom(func(t *rapid.T) *constraint.Facts {
	f := &constraint.Facts{OS: rapid.SampledFrom([]string{"linux", "linux", "darwin"}).Draw(t, "os"), Arch: rapid.SampledFrom([]string{"amd64", "arm64"}).Draw(t, "arch"), Labels: map[string]string{}}
	if zone := rapid.SampledFrom([]string{"east", "west", "north", ""}).Draw(t, "zone"); zone != "" {
		f.Labels["zone"] = zone
	}
	return f
})

var anyPeer = rapid.Custom(func(t *rapid.T) placement.Peer {
	offer := taskstate.Resources{
		MilliCPU: 500 * rapid.Int64Range(0, 12).Draw(t, "offerCPU"), Memory: rapid.Int64Range(0, 12).Draw(t, "offerMemory"), Disk: rapid.Int64Range(0, 12).Draw(t, "offerDisk"),
		Others: taskstate.CountsOf(map[string]int64{"gpus": rapid.Int64Range(0, 4).Draw(t, "offerGPUs"), "keys": rapid.Int64Range(0, 9).Draw(t, "offerKeys")}),
	}
	facts := anyFacts.Draw(t, "facts")
	facts.Memory = offer.Memory
	p := placement.Peer{
		Ready: !some(t, "not ready", 6), Available: !some(t, "not available", 6), Faulty: some(t, "faulty", 4), Facts: facts,
		Offer: offer, Free: offer.Sub(anyResources.Draw(t, "promised")), Ahead: rapid.IntRange(0, 4).Draw(t, "ahead"),
		Room: rapid.IntRange(0, 12).Draw(t, "room"), OfJob: rapid.IntRange(0, 4).Draw(t, "ofJob"), Total: rapid.IntRange(0, 6).Draw(t, "total"),
		Here: rapid.Int64Range(0, 2).Draw(t, "here"),
	}
	return p
})

func anyPeers(most int) *rapid.Generator[[]placement.Peer] {
	return rapid.Custom(func(t *rapid.T) []placement.Peer {
		ps := rapid.SliceOfN(anyPeer, 0, most).Draw(t, "peers")
		for i := range ps {
			ps[i].ID = fmt.Sprintf("peer-%d", i)
		}
		return ps
	})
}

var anyJob = rapid.Custom(func(t *rapid.T) job {
	j := job{Need: placement.Need{
		Tasks: rapid.IntRange(0, 40).Draw(t, "tasks"), Resources: anyResources.Draw(t, "need"), MaxPerPeer: rapid.IntRange(0, 5).Draw(t, "max"),
		Strategy: rapid.SampledFrom([]taskstate.Strategy{"", taskstate.Spread, taskstate.Binpack, taskstate.Random}).Draw(t, "strategy"),
	}}
	if some(t, "constrained", 2) {
		j.rules = rapid.SliceOfNDistinct(rapid.IntRange(0, len(rules)-1), 0, 3, rapid.ID).Draw(t, "rules")
	}
	for _, r := range j.rules {
		c, err := constraint.Parse(rules[r].text)
		if err != nil {
			t.Fatal(err)
		}
		j.Constraints = append(j.Constraints, c)
	}
	if some(t, "over", 2) {
		j.Over, _ = constraint.ParseOver("peer.label.zone")
	}
	if some(t, "only", 8) {
		j.Only = fmt.Sprintf("peer-%d", rapid.IntRange(0, 8).Draw(t, "pin"))
	}
	return j
})

// kinds are resources by name; what there is none of is left out.
func kinds(r taskstate.Resources) map[string]int64 {
	m := r.Others.Map()
	if m == nil {
		m = map[string]int64{}
	}
	if r.MilliCPU != 0 {
		m["cpu"] = r.MilliCPU
	}
	if r.Memory != 0 {
		m["memory"] = r.Memory
	}
	if r.Disk != 0 {
		m["disk"] = r.Disk
	}
	return m
}
