package testnet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/testnet/stack"
)

// Each side has gone on with what it could: tasks ended where nobody could be told, one side took
// jobs, the other held some, and the coordinator is another one or not.
func TestAllTablesAreEqualFiveSecondsAfterAPartitionHeals(t *testing.T) {
	for seed, c := range []struct {
		peers, off int // so many of them are cut off, the founder among them
		cut        time.Duration
	}{
		{3, 1, 2 * time.Second},
		{5, 2, 2 * time.Second},
		{5, 2, 8 * time.Second},
		{4, 2, 8 * time.Second},
		{3, 1, 25 * time.Second},
		{5, 3, 25 * time.Second},
		{7, 3, 25 * time.Second},
		{2, 1, 70 * time.Second},
		{5, 2, 70 * time.Second},
		{5, 3, 10 * time.Minute},
		{4, 2, 10 * time.Minute},
		{3, 1, 10 * time.Minute},
	} {
		t.Run(fmt.Sprintf("%d of %d cut off for %v", c.off, c.peers, c.cut), func(t *testing.T) {
			if c.peers > 3 || c.cut > time.Minute {
				long.Test(t)
			}
			t.Parallel()
			playScene(t, stack.Config{Seed: uint64(seed), Peers: c.peers}, func(s *stack.Scene) {
				one, other := split(c.peers, c.off)
				s.Submit(0, napJob("cutbeforea", 20, c.cut/2))
				s.Submit(0, napJob("cutbeforeb", 20, 2*c.cut))
				s.Sleep(time.Second)
				heal := s.Cut(one, other)
				s.Sleep(c.cut / 2)
				s.Submit(one[0], napJob("cutduringa", 3, time.Second))
				s.Submit(other[0], napJob("cutduringb", 3, time.Second))
				s.Sleep(c.cut / 2)
				if s.Apart() == "" {
					t.Error("the tables are equal before the cut heals: it was none")
				}
				heal()
				within(t, s, 5*time.Second, "all tables are equal", s.Apart)
			})
		})
	}
}

// split makes two sides of n peers: the first k, and the rest.
func split(n, k int) (one, other []int) {
	for i := range n {
		if i < k {
			one = append(one, i)
		} else {
			other = append(other, i)
		}
	}
	return one, other
}
