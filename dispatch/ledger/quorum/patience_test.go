package quorum

import (
	"testing"
	"time"

	"pgregory.net/rapid"
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
		near, far := patienceFor(a), patienceFor(b)
		for i, d := range fields(near) {
			if d < fields(fast)[i] || d > fields(far)[i] || d > 10*time.Second {
				t.Fatalf("over %v it is %+v, over %v %+v", a, near, b, far)
			}
		}
		if r := min(a, farthest); near.leader < 2*r || near.voter < near.leader+2*r {
			t.Fatalf("over %v an answer comes too late: %+v", a, near)
		}
	})
}
