package ledger_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

func (fl *flock) chains() map[string]string {
	out := map[string]string{}
	for id, b := range fl.nodes {
		b.Replica().Read(func(s *ledger.State) {
			from, sum := s.Chain()
			if from > 0 {
				out[id] = string(sum)
			}
		})
	}
	return out
}

// agree waits until everybody has the same, and all jobs.
func (fl *flock) agree(jobs int) {
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
			inBubble(t, func(t *testing.T, fl *flock) {
				fl.grow(3, "a", "b", "c")
				f := fl.run(fl.start("d", "1", "a"))
				fl.insist(job(1))
				fl.insist(job(2))
				fl.agree(2)
				l := fl.leader()
				bad := map[string]*bird{"the leader": l, "a follower": f}[who]
				if bad == nil {
					bad = fl.nodes[map[string]string{"a": "b", "b": "c", "c": "a"}[l.id]]
				}
				seat := bad.SeatIncarnation()
				bad.Corrupt()
				fl.insist(job(3))
				if who == "the leader" {
					fl.await("it leads no more", func() bool { now := fl.leader(); return now != nil && now != l })
				}
				if who != "a follower" {
					fl.await("it votes with another seat", func() bool { return bad.SeatIncarnation() != seat && fl.whole(bad.id, string(bad.SeatIncarnation()))() })
				}
				fl.insist(job(4))
				fl.agree(4)
				if got := bad.Differs(); got != "" {
					t.Errorf("it still says %q", got)
				}
			})
		})
	}
}

func TestWithoutAMajorityADifferenceIsOnlySaid(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *flock) {
		fl.grow(3, "a", "b", "c")
		fl.insist(job(1))
		fl.insist(job(2))
		fl.agree(2)
		l := fl.leader()
		others := map[string][2]string{"a": {"b", "c"}, "b": {"c", "a"}, "c": {"a", "b"}}[l.id]
		fl.down(others[0])
		fl.nodes[others[1]].Corrupt()
		fl.insist(job(3))
		fl.await("it is said", func() bool { return fl.nodes[others[1]].Differs() != "" })
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

// A replica that began with a snapshot of version 0.1, or replays its log, comes to the chain of everybody else; before that it has none.
func TestAChainBeginsAtTheSameEntryForEverybody(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var all []ledger.Entry
		at := rapid.IntRange(1, 9).Draw(r, "the first leader of this version")
		for i := range 20 {
			c := job(i + 1)
			if i == at {
				c = ledger.Command{Lead: &ledger.Lead{Chain: true}}
			} else if i%3 == 0 {
				c = ledger.Command{Lead: &ledger.Lead{}}
			}
			all = append(all, ledger.Entry{Index: uint64(2 * (i + 1)), Epoch: taskstate.At(1, 1), Stamp: int64(i), By: "a", Commands: []ledger.Command{c}})
		}
		whole, other := ledger.NewState(), ledger.NewState()
		via := rapid.IntRange(0, 19).Draw(r, "snapshot after")
		for i, e := range all {
			whole.Apply(e)
			other.Apply(e)
			if i == via {
				back, err := ledger.DecodeState(encode(r, other))
				if err != nil {
					r.Fatal(err)
				}
				other = back
			}
			f1, s1 := whole.Chain()
			f2, s2 := other.Chain()
			if f1 != f2 || !bytes.Equal(s1, s2) {
				r.Fatalf("after entry %d the chains differ: from %d and %d", e.Index, f1, f2)
			}
			if want := uint64(2 * (at + 1)); i >= at && f1 != want || i < at && f1 != 0 {
				r.Fatalf("it begins with entry %d, want %d", f1, want)
			}
		}
	})
}
