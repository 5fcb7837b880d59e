package ledger_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
)

func TestStampsGoOnAsTimePassesWhateverTheClockSays(t *testing.T) {
	begin := time.UnixMilli(1_700_000_000_000)
	s := ledger.NewStamps(5_000_000, begin)
	for _, step := range []struct {
		passed time.Duration
		wall   int64
		want   int64
		why    string
	}{
		{0, 4_000_000, 5_000_000, "a clock that is behind does not take the ledger back"},
		{700 * time.Millisecond, 4_000_700, 5_000_700, "and time passes all the same"},
		{2 * time.Second, 9_000_000, 9_000_000, "a clock that is set forward is followed"},
		{3 * time.Second, 4_003_000, 9_001_000, "and not when it is set back"},
		{4 * time.Second, 9_002_000, 9_002_000, "both agree again"},
	} {
		if got := s.At(step.wall, begin.Add(step.passed)); got != step.want {
			t.Errorf("after %v, clock at %d: %d, want %d: %s", step.passed, step.wall, got, step.want, step.why)
		}
	}
}
