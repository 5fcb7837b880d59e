package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/far"
)

func TestPatienceGrowsWithTheRoundTripAndNeverFallsBelowThatOfFastLinks(t *testing.T) {
	fast := patienceFor(0)
	if want := (patience{leader: 300 * time.Millisecond, voter: 400 * time.Millisecond, step: rankStep, pause: permitPause}); fast != want {
		t.Errorf("on fast links it is %+v", fast)
	}
	fields := func(p patience) []time.Duration {
		return []time.Duration{p.leader, p.voter, p.step, p.pause, p.way}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "round trip"))
		b := a + time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "longer by"))
		near, away := patienceFor(a), patienceFor(b)
		for i, d := range fields(near) {
			if d < fields(fast)[i] || d > fields(away)[i] || d > 21*time.Second {
				t.Fatalf("over %v it is %+v, over %v %+v", a, near, b, away)
			}
		}
		if r := min(a, far.Away); near.leader < 2*r || near.voter < near.leader+2*r {
			t.Fatalf("over %v an answer comes too late: %+v", a, near)
		}
	})
}

// What raft has in its queues when it is stopped it never answers.
func TestRaftIsStoppedWhenItHasAnsweredOrDoesNot(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(r, "asked")
		answers := rapid.SliceOfN(rapid.IntRange(0, 2000), n, n).Draw(r, "answered after so many milliseconds")
		synctest.Test(t, func(t *testing.T) {
			var a asks
			begun := time.Now()
			var last time.Duration
			for _, ms := range answers {
				took := time.Duration(ms) * time.Millisecond
				last = max(last, took)
				if !a.begin() {
					t.Fatal("raft may not be asked")
				}
				time.AfterFunc(took, a.end)
			}
			a.close()
			if waited := time.Since(begun); waited != min(last, lastAnswers) {
				t.Errorf("waited for %v, with answers after %v ms", waited, answers)
			}
			if a.begin() {
				t.Error("raft is asked while it stops")
			}
			a.close() // again
			time.Sleep(2 * time.Second)
		})
	})
}
