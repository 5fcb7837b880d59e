//go:build !race

package ledger_test // what the race detector adds to an allocation is not what is measured here

import (
	"runtime"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// Part of case 4.
func TestAHundredThousandOutputsTakeAtMost64BytesMore(t *testing.T) {
	const many, most = 100_000, 64
	weigh := func(job ledger.Command, end func(n int) taskstate.Status) uint64 {
		l := newLog(t)
		var all []taskstate.Status
		for n := 1; n <= many; n++ {
			all = append(all, end(n))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l.must(job, assign("j", "p2", run(1, many, 1)), settle("p2", all...))
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / many
	}
	plain := weigh(submit("j", many), func(n int) taskstate.Status { return ended("j", n, taskstate.Complete) })
	with := weigh(saver("j", many), func(n int) taskstate.Status { return kept("j", n, 7, "p2", "p1") })
	if with > plain+most {
		t.Errorf("%d bytes per slot, and %d without outputs: want at most %d more", with, plain, most)
	}
	t.Logf("%d bytes per slot, and %d without outputs", with, plain)
}
