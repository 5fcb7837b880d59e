package quorum

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However the clocks of fewer than half of the voters are set, and whichever voters coordinate, the
// ledger's time stays close to the others' clocks, and never stands behind them.
func TestWrongClocksOfAMinorityNeverTakeTheLedgerAheadOfTheOthers(t *testing.T) {
	const minute, day = int64(time.Minute / time.Millisecond), int64(24 * time.Hour / time.Millisecond)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{3, 4, 5}).Draw(t, "voters")
		wrong := rapid.IntRange(0, (n-1)/2).Draw(t, "wrong")
		off := make([]int64, n) // the first are wrong
		draw := func(i int) {
			off[i] = rapid.Int64Range(-2*minute, 2*minute).Draw(t, "off")
			if i < wrong {
				off[i] = rapid.OneOf(rapid.Int64Range(-20*minute, 20*minute), rapid.Int64Range(-50*365*day, 50*365*day)).Draw(t, "wrong by")
			}
		}
		for i := range off {
			draw(i)
		}
		now := 60 * 365 * day
		newest := now
		for range rapid.IntRange(1, 30).Draw(t, "entries") {
			passed := rapid.Int64Range(0, 60*minute).Draw(t, "passed")
			now, newest = now+passed, newest+passed // stamps never go slower than time
			draw(rapid.IntRange(0, n-1).Draw(t, "set"))
			leader := rapid.IntRange(0, n-1).Draw(t, "leader")
			var clocks []int64
			for i := range off {
				clocks = append(clocks, now+off[i])
			}
			wall, limit, ok := clocks[leader], int64(0), false
			if limit, ok = stampLimit(clocks, n, newest); !ok {
				t.Fatalf("the clocks %v do not count against a ledger at %d", clocks, newest)
			}
			newest = max(newest, min(wall, limit))
			if ahead := newest - now; ahead > 7*minute {
				t.Fatalf("the ledger is %v ahead with clocks off by %v", time.Duration(ahead)*time.Millisecond, off)
			}
			if leader >= wrong && wall > limit {
				t.Fatalf("a right clock, off by %d, is beyond the limit: clocks are off by %v", off[leader], off)
			}
		}
	})
}

func TestTheLimitIsAboveTheLowerMedianOfTheClocksThatCount(t *testing.T) {
	const h = int64(time.Hour / time.Millisecond)
	skew := maxSkew.Milliseconds()
	for _, x := range []struct {
		why    string
		clocks []int64 // in hours
		voters int
		newest int64
		limit  int64 // hours, of the clock that it is above; -1: there is none
	}{
		{"the two others outvote a clock", []int64{50, 10, 10}, 3, 9, 10},
		{"of two that are known the lower one counts", []int64{50, 10}, 3, 9, 10},
		{"a voter that lags alone does not hold others up", []int64{10, 10, 1}, 3, 1, 10},
		{"clocks that are behind the ledger do not count", []int64{10, 0, 0}, 3, 9, -1},
		{"with two voters nothing outvotes a clock", []int64{50, 10}, 2, 9, -1},
		{"nor with one", []int64{50}, 1, 9, -1},
		{"nor where no other clock is known", []int64{50}, 3, 9, -1},
		{"of four the second", []int64{50, 10, 11, 40}, 4, 9, 11},
		{"of five the third", []int64{50, 12, 10, 40, 11}, 5, 9, 12},
	} {
		clocks := slices.Clone(x.clocks)
		for i := range clocks {
			clocks[i] *= h
		}
		before := slices.Clone(clocks)
		limit, ok := stampLimit(clocks, x.voters, x.newest*h)
		if ok != (x.limit >= 0) || ok && limit != x.limit*h+skew {
			t.Errorf("%s: %d %v", x.why, limit/h, ok)
		}
		if !slices.Equal(clocks, before) {
			t.Errorf("%s: the clocks were changed to %v", x.why, clocks)
		}
	}
}
