package testnet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/testnet/stack"
)

// away is one absence, and of whom.
type away struct {
	length     time.Duration
	voter, cut bool // otherwise it follows, and is switched off
}

// Thousands of tasks came and went meanwhile, and coordinators with them, each of which has started
// anew since: what they remember does not reach back to what the returning peer saw last.
func TestAPeerThatWasAwayForHoursIsCurrentWithinFiveSecondsOfItsReturn(t *testing.T) {
	long.Test(t)
	for name, a := range map[string]away{
		"a follower that was switched off": {length: 3 * time.Hour},
		"a follower that was cut off":      {length: 40 * time.Minute, cut: true},
		"a voter that was switched off":    {length: 40 * time.Minute, voter: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				a.length = min(a.length, 20*time.Minute)
			}
			playScene(t, stack.Config{Seed: 1, Peers: 4}, func(s *stack.Scene) { goneAndBack(t, s, a) })
		})
	}
}

func goneAndBack(t *testing.T, s *stack.Scene, a away) {
	within(t, s, time.Minute, "three vote", func() string {
		if v := s.Voters(0); len(v) != 3 || len(s.Voters(3)) != 3 {
			return fmt.Sprintf("%v vote", v)
		}
		return ""
	})
	who := slices.IndexFunc([]int{0, 1, 2, 3}, func(k int) bool {
		return k != s.Coordinator(k) && slices.Contains(s.Voters(k), k) == a.voter
	})
	stay := slices.DeleteFunc([]int{0, 1, 2, 3}, func(k int) bool { return k == who })
	s.Submit(who, napJob("beforeaway", 100, time.Second))
	s.Sleep(5 * time.Second)
	back := func() { s.Boot(who) }
	if a.cut {
		back = s.Cut([]int{who}, stay)
	} else {
		s.Kill(who, true)
	}
	liveOn(t, s, stay, a.length)
	head := s.Head(stay[0])
	back()
	within(t, s, 5*time.Second, "it is current", func() string {
		if !s.Up(who) {
			return "it is not up"
		}
		if at := s.Head(who); at < head {
			return fmt.Sprintf("its copy of the ledger ends at %d, and the ledger was at %d", at, head)
		}
		return s.Apart()
	})
}

// liveOn spends the time with thousands of tasks, and has the coordinator die three times.
func liveOn(t *testing.T, s *stack.Scene, stay []int, length time.Duration) {
	for n := range 12 {
		s.Submit(stay[n%3], napJob(fmt.Sprintf("whileaway%c", 'a'+n), 500, time.Second))
		s.Sleep(length / 12)
		if n%4 != 1 {
			continue
		}
		boss := s.Coordinator(stay[0])
		s.Kill(boss, n == 5)
		s.Sleep(15 * time.Second)
		s.Boot(boss)
		within(t, s, time.Minute, "another coordinates", func() string {
			if now := s.Coordinator(boss); now < 0 || now == boss {
				return fmt.Sprintf("%d does", now)
			}
			return ""
		})
	}
	for _, k := range stay {
		within(t, s, time.Minute, "all work is done", func() string { return s.Over(k) })
	}
}
