package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// offers is a peer that is here, with so much in all and so much of it free, in cpus.
func offers(name string, cpus, free int64) placement.Peer {
	return placement.Peer{
		ID: name, Ready: true, Available: true, Room: 10, Facts: &constraint.Facts{ID: name, Name: name},
		Offer: taskstate.Resources{MilliCPU: cpus * 1000, Memory: 4 << 30}, Free: taskstate.Resources{MilliCPU: free * 1000, Memory: free << 30},
	}
}

// writes is a peer with so much disk in all and so much of it free, in GiB.
func writes(name string, disk, free int64) placement.Peer {
	p := offers(name, 1, 1)
	p.Offer.Disk, p.Free.Disk = disk<<30, free<<30
	return p
}

func TestWhyTasksWaitIsASentence(t *testing.T) {
	cpus := func(n int64) placement.Need {
		return placement.Need{Resources: taskstate.Resources{MilliCPU: n * 1000}}
	}
	gone, paused := offers("p9", 64, 64), offers("p9", 64, 64)
	gone.Ready, paused.Available = false, false
	full := offers("p1", 4, 4)
	full.OfJob = 2
	only, err := constraint.ParseAll([]string{"peer.name == p2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		want  string
		tasks int
		of    int
		need  placement.Need
		peers []placement.Peer
	}{
		{"needs 64 cpus; the largest peer, p1, offers 2", 1, 1, cpus(64), []placement.Peer{offers("p1", 2, 0), offers("p2", 1, 1)}},
		{"needs 64 cpus; the only peer here, p1, offers 2", 1, 1, cpus(64), []placement.Peer{offers("p1", 2, 0)}},
		{"needs 64 cpus; p9 offers them and is not here", 1, 1, cpus(64), []placement.Peer{offers("p1", 2, 0), gone}},
		{"needs 64 cpus; p9 offers them and takes no new tasks now", 1, 1, cpus(64), []placement.Peer{offers("p1", 2, 0), paused}},
		{"30 tasks wait: all 6 cpus are busy", 30, 100, cpus(1), []placement.Peer{offers("p1", 2, 0), offers("p2", 4, -1)}},
		{"30 tasks wait: all 2 cpus are busy; 1 peer is not here", 30, 100, cpus(1), []placement.Peer{offers("p1", 2, 0), gone}},
		{"1 task waits: all 6 cpus are busy", 1, 100, cpus(1), []placement.Peer{offers("p1", 2, 0), offers("p2", 4, 0)}},
		{"all 2 cpus are busy", 1, 1, cpus(1), []placement.Peer{offers("p1", 2, 0)}},
		{"2 tasks wait: needs 2 cpus, and no peer that would do has more than 1 free", 2, 5, cpus(2), []placement.Peer{offers("p1", 2, 1), offers("p2", 4, 1)}},
		{"2 tasks wait: all 4 cpus of the peers that would do are busy", 2, 5, cpus(4), []placement.Peer{offers("p1", 2, 2), offers("p2", 4, 0)}},
		{"needs 8GiB of memory; the largest peer, p1, offers 4GiB", 1, 1, placement.Need{Resources: taskstate.Resources{Memory: 8 << 30}}, []placement.Peer{offers("p1", 2, 0), offers("p2", 4, 0)}},
		{"all 4GiB of memory is promised", 1, 1, placement.Need{Resources: taskstate.Resources{Memory: 1 << 30}}, []placement.Peer{offers("p1", 2, 0)}},
		{"needs 2TiB of disk; the largest peer, p2, offers 40GiB", 1, 1, placement.Need{Resources: taskstate.Resources{Disk: 2 << 40}}, []placement.Peer{writes("p1", 20, 0), writes("p2", 40, 0)}},
		{"2 tasks wait: all 40GiB of disk is promised", 2, 5, placement.Need{Resources: taskstate.Resources{Disk: 1 << 30}}, []placement.Peer{writes("p1", 40, 0)}},
		{"needs 8GiB of disk, and no peer that would do has more than 5GiB free", 1, 1, placement.Need{Resources: taskstate.Resources{Disk: 8 << 30}}, []placement.Peer{writes("p1", 40, 5)}},
		{"needs 2 gpus; no peer here offers any", 1, 1, placement.Need{Resources: taskstate.Resources{Others: taskstate.CountsOf(map[string]int64{"gpus": 2})}}, []placement.Peer{offers("p1", 2, 0)}},
		{"3 tasks wait: at most 2 of the job may be on one peer (max_per_peer)", 3, 5, placement.Need{MaxPerPeer: 2}, []placement.Peer{full}},
		{"", 1, 1, cpus(1), nil},
		{"", 1, 1, cpus(1), []placement.Peer{gone}},
		{"", 1, 1, placement.Need{Constraints: only}, []placement.Peer{offers("p1", 2, 0)}},
	} {
		w := why{tasks: x.tasks, of: x.of, need: x.need}
		if got := w.say(x.peers); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// Whatever placement would place is never said to wait for something that is lacking or busy.
func TestNoSentenceContradictsPlacement(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var peers []placement.Peer
		for i := range rapid.IntRange(0, 4).Draw(r, "peers") {
			all := rapid.Int64Range(0, 8).Draw(r, "cpus")
			p := offers(string(rune('a'+i)), all, all-rapid.Int64Range(0, 9).Draw(r, "promised"))
			p.Ready, p.Available, p.OfJob = rapid.Bool().Draw(r, "ready"), rapid.Bool().Draw(r, "available"), rapid.IntRange(0, 3).Draw(r, "of it")
			peers = append(peers, p)
		}
		need := placement.Need{Tasks: 1, Resources: taskstate.Resources{MilliCPU: 1000 * rapid.Int64Range(0, 9).Draw(r, "need")}, MaxPerPeer: rapid.IntRange(0, 3).Draw(r, "cap")}
		w := why{tasks: 1, of: 1, need: need}
		said, plan := w.say(peers), placement.Place(need, peers, 1)
		if plan.Placed > 0 && said != "" {
			r.Fatalf("%+v is placed, and said to wait: %s", need, said)
		}
		if strings.HasPrefix(said, "needs") && !strings.Contains(said, "free") && plan.Suitable > 0 {
			r.Fatalf("%d peers would do, and yet: %s", plan.Suitable, said)
		}
	})
}

func TestOneAnswerSaysOfManyJobsWhyTheyWaitWithinBounds(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=1")
	for i := range maxWhys + 20 {
		r.commands(fmt.Sprintf("submit j%d count=2 cpus=9", i))
	}
	r.commands("submit done count=1", "batch a 1 done.1.1=complete")
	whys := r.core.Whys()
	newest := taskstate.JobID(fmt.Sprintf("j%d", maxWhys+19))
	if len(whys) != maxWhys || whys["j0"] != "" || whys["done"] != "" || whys[newest] != "needs 9 cpus; the only peer here, a, offers 1" {
		t.Errorf("%d sentences; of the newest %q, of the oldest %q, of what is done %q", len(whys), whys[newest], whys["j0"], whys["done"])
	}
	for id, why := range whys {
		if len(why) > maxWhy || why != r.core.Waiting(id) {
			t.Errorf("%s: %q", id, why)
		}
	}
}
