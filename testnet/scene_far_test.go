package testnet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/taskstate"
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

// Two seconds each way are those of a satellite with a slow modem behind it: a round trip takes
// longer than a cluster on fast links waits for a dead peer.
func TestOverLinksOfTwoSecondsEachWayACommandIsDoneWithinThirtySeconds(t *testing.T) {
	seeds := uint64(2)
	if long.Tests {
		seeds = 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			cfg := stack.Config{Seed: seed, Peers: 3, Far: 2 * time.Second}
			if *storyTo != "" && seed == *firstSeed {
				defer tellStack(t, *storyTo, &cfg)()
			}
			playScene(t, cfg, func(s *stack.Scene) {
				t.Logf("the cluster stands after %v", s.Now())
				commandsAreDone(t, s, "while the others come", 0, 1, 2)
				within(t, s, 3*time.Minute, "three vote", func() string {
					if v := s.Voters(0); len(v) != 3 {
						return fmt.Sprint(v)
					}
					return ""
				})
				s.Sleep(time.Duration(seed) * 777 * time.Millisecond)
				commandsAreDone(t, s, "of three voters", 0, 1, 2)
				if !long.Tests {
					return
				}
				old := s.Coordinator(0)
				s.Kill(old, seed%2 == 0)
				within(t, s, 90*time.Second, "another peer decides", func() string {
					if c := s.Coordinator((old + 1) % 3); c < 0 || c == old {
						return "nobody else"
					}
					return ""
				})
				commandsAreDone(t, s, "of two voters", (old+1)%3, (old+2)%3)
				s.Boot(old)
				within(t, s, 3*time.Minute, "all agree", s.Apart)
			})
		})
	}
}

// commandsAreDone hands a job in at each of some peers, and expects it to be accepted at once and
// done within 30 seconds.
func commandsAreDone(t *testing.T, s *stack.Scene, when string, at ...int) {
	t.Helper()
	for _, p := range at {
		began := s.Now()
		if s.Submit(p, napJob(string(taskstate.NewJobID()), 1, time.Millisecond)) {
			t.Errorf("%s: the job is held at p%d", when, p)
		}
		handed := s.Now() - began
		_, missing := s.Await(5*time.Minute, func() string { return s.Over(p) })
		if took := s.Now() - began; missing != "" || took > 30*time.Second {
			t.Errorf("%s: a job of p%d, accepted after %v, is done after %v; missing: %s", when, p, handed, took, missing)
		} else {
			t.Logf("%s: a job of p%d is accepted after %v and done after %v", when, p, handed, took)
		}
	}
}
