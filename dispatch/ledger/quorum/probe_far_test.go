package quorum_test

import (
	"testing"
	"time"
)

// Where two voters keep each other from standing, one of them tries again after a pause: that is
// rare, and at worst raft's own timers end it.
func TestAnElectionOverSlowLinksTakesSomeRoundTrips(t *testing.T) {
	for name, end := range map[string]func(fl *cluster, id string){"killed": (*cluster).kill, "cut off": (*cluster).cutOff} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *cluster) {
				fl.grow(3, "a", "b", "c")
				fl.far(100 * time.Millisecond)
				fl.settle()
				slow := 0
				for round := range 6 {
					time.Sleep(time.Duration(round) * 377 * time.Millisecond)
					fl.await("a coordinator", func() bool { return fl.leader() != nil })
					old := fl.leader()
					end(fl, old.id)
					for _, b := range fl.nodes {
						if b != old {
							b.SuspectLeader()
						}
					}
					took := fl.await("another coordinator", func() bool { l := fl.leader(); return l != nil && l != old })
					t.Logf("round %d: %v", round, took)
					if took > 3*time.Second {
						slow++
					}
					if took > 8*time.Second || slow > 1 {
						t.Errorf("round %d: a new coordinator took %v; %d rounds took more than 3 s", round, took, slow)
					}
					if name == "killed" {
						fl.run(fl.start(old.id, "1"))
					} else {
						fl.net.Heal()
					}
					fl.settle()
				}
			})
		})
	}
}
