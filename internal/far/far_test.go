package far

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

type measured map[string]time.Duration

func (m measured) RTT(peer string) time.Duration { return m[peer] }

func TestAWaitGrowsWithTheRoundTripAndStaysAsItIsOnFastLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "wait"))
		a := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "round trip"))
		b := a + time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "longer by"))
		near, away := Allow(d, a), Allow(d, b)
		switch {
		case near < d || away < near || away > max(d, Most):
			t.Fatalf("%v over %v is %v, over %v %v", d, a, near, b, away)
		case a <= d/4 && near != d:
			t.Fatalf("%v over %v is %v", d, a, near)
		case a <= Away && near < 3*a:
			t.Fatalf("%v over %v leaves no time for an answer: %v", d, a, near)
		}
	})
}

func TestAPeerThatWasNotMeasuredCountsAsNear(t *testing.T) {
	net := measured{"far": 4 * time.Second}
	for peer, want := range map[string]time.Duration{"far": 16 * time.Second, "other": time.Second} {
		if d := For(net, peer, time.Second); d != want {
			t.Errorf("%s: %v", peer, d)
		}
	}
	if d := For("measures nothing", "far", time.Second); d != time.Second {
		t.Errorf("%v", d)
	}
}
