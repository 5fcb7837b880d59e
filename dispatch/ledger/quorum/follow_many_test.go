package quorum_test

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
)

func TestAnElectionCostsFiftyFollowersNoSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		for i := range 50 { // members that may not vote: they follow one of the three
			id := fmt.Sprintf("f%02d", i)
			fl.propose(fl.leader(), ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{
				Cluster: "clusterclusterclu", Peer: id, Roles: []admission.Role{admission.Worker}, By: "a",
			}}})
			fl.run(fl.start(id, "1", "a", "b", "c"))
		}
		fl.insist(job(1))
		fl.settle()
		had := map[string]int{}
		for id, b := range fl.nodes {
			had[id] = b.SnapshotsTaken()
		}

		first := fl.leader()
		fl.kill(first.id)
		fl.see(first.id, "1", false)
		fl.await("another coordinator", func() bool { l := fl.leader(); return l != nil && l != first })
		fl.insist(job(2))
		fl.settle()
		for id, b := range fl.nodes {
			if !has(b, 2) {
				t.Errorf("%s does not know what was decided after the election", id)
			}
			if n := b.SnapshotsTaken() - had[id]; n != 0 {
				t.Errorf("%s was sent %d snapshots", id, n)
			}
		}
	})
}
