package testnet_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/testnet/stack"
)

// Round trips of 200 ms are those between continents.
func TestOverSlowLinksAnotherPeerDecidesWithinThreeSeconds(t *testing.T) {
	long.Test(t)
	for what, power := range map[string]bool{"killed": false, "without power": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				playScene(t, stack.Config{Seed: seed, Peers: 3}, func(s *stack.Scene) {
					s.Far(100 * time.Millisecond)
					s.Sleep(time.Minute)
					old := s.Coordinator(0)
					asks := (old + 1) % 3
					began := s.Now()
					s.Kill(old, power)
					s.Submit(asks, napJob("neededhere", 1, time.Second))
					t.Logf("the job is handed in after %v", s.Now()-began)
					_, missing := s.Await(time.Minute, func() string {
						if c := s.Coordinator(asks); c < 0 || c == old {
							return "nobody else decides"
						}
						return ""
					})
					if took := s.Now() - began; missing != "" || took > 3*time.Second {
						t.Errorf("seed %d: another peer decides after %v; %s", seed, took, missing)
					} else {
						t.Logf("another peer decides after %v", took)
					}
					s.Boot(old)
					s.Sleep(30 * time.Second)
				})
			}
		})
	}
}
