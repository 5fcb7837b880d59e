package testnet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/testnet/stack"
)

// A peer that is answered is not alone: it goes on asking until somebody can decide.
func TestANewcomerWaitsWhileNobodyCanDecide(t *testing.T) {
	playScene(t, stack.Config{Seed: 1, Peers: 3}, func(s *stack.Scene) {
		within(t, s, time.Minute, "three vote", func() string {
			if v := s.Voters(0); len(v) != 3 {
				return fmt.Sprintf("%v vote", v)
			}
			return ""
		})
		s.Kill(1, false)
		s.Kill(2, false)
		s.Sleep(5 * time.Second)
		n := s.Join()
		s.Sleep(2 * time.Minute)
		if s.Up(n) {
			t.Error("it was let in by one of three voters")
		}
		s.Boot(1)
		s.Boot(2)
		within(t, s, 30*time.Second, "it is in", func() string {
			if !s.Up(n) {
				return "it is not up"
			}
			return s.Apart()
		})
	})
}

// Forty newcomers knock at one founder in the same moment.
func TestAllOfAStormOfNewcomersComeIn(t *testing.T) {
	long.Test(t)
	storm := 40
	if testing.Short() {
		storm = 15
	}
	playScene(t, stack.Config{Seed: 1, Peers: 1}, func(s *stack.Scene) {
		for range storm {
			s.Join()
		}
		within(t, s, time.Minute, "everybody lists everybody", s.Apart)
	})
}
