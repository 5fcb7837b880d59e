package quorum_test

import (
	"testing"
	"time"
)

func (fl *cluster) chains() map[string]string {
	out := map[string]string{}
	for id, b := range fl.nodes {
		if m, ok := b.Replica().ChainAt(0); ok {
			out[id] = string(m.Sum[:])
		}
	}
	return out
}

// agree waits until everybody has the same, and all jobs.
func (fl *cluster) agree(jobs int) {
	fl.t.Helper()
	fl.await("all agree", func() bool {
		seen := map[string]bool{}
		for _, c := range fl.chains() {
			seen[c] = true
		}
		return len(seen) == 1 && len(fl.chains()) == len(fl.nodes)
	})
	for id, b := range fl.nodes {
		for i := range jobs {
			if !has(b, i+1) {
				fl.t.Errorf("%s does not have job %d", id, i+1)
			}
		}
	}
}

func TestACopyThatIsWrongIsNoticedAndFetchedAnew(t *testing.T) {
	for _, who := range []string{"the leader", "a voter", "a follower"} {
		t.Run(who, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *cluster) {
				fl.grow(3, "a", "b", "c")
				f := fl.run(fl.start("d", "1", "a"))
				fl.insist(job(1))
				fl.insist(job(2))
				fl.agree(2)
				l := fl.leader()
				bad := map[string]*testNode{"the leader": l, "a follower": f}[who]
				if bad == nil {
					bad = fl.nodes[map[string]string{"a": "b", "b": "c", "c": "a"}[l.id]]
				}
				seat := bad.SeatIncarnation()
				if err := bad.Corrupt(); err != nil {
					t.Fatal(err)
				}
				fl.insist(job(3))
				if who == "the leader" {
					fl.await("it leads no more", func() bool { now := fl.leader(); return now != nil && now != l })
				}
				if who != "a follower" {
					fl.await("it votes with another seat", func() bool { return bad.SeatIncarnation() != seat && fl.whole(bad.id, string(bad.SeatIncarnation()))() })
				}
				fl.insist(job(4))
				fl.agree(4)
				fl.await("it says nothing any more", func() bool { return bad.Differs(asIs) == "" })
			})
		})
	}
}

func TestWithoutAMajorityADifferenceIsOnlySaid(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		fl.insist(job(2))
		fl.agree(2)
		l := fl.leader()
		others := map[string][2]string{"a": {"b", "c"}, "b": {"c", "a"}, "c": {"a", "b"}}[l.id]
		fl.down(others[0])
		if err := fl.nodes[others[1]].Corrupt(); err != nil {
			t.Fatal(err)
		}
		fl.insist(job(3))
		fl.await("it is said", func() bool { return fl.nodes[others[1]].Differs(asIs) != "" })
		time.Sleep(10 * time.Second)
		if fl.leader() != l || !l.HasSeat() || !fl.nodes[others[1]].HasSeat() {
			t.Error("somebody gave up a seat though nobody can say who is right")
		}
		fl.up(others[0])
		fl.await("with the third voter there is a majority", func() bool {
			return fl.whole(others[1], string(fl.nodes[others[1]].SeatIncarnation()))() && fl.nodes[others[1]].SeatIncarnation() != "1"
		})
		fl.agree(3)
	})
}
