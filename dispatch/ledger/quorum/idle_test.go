//go:build unix

package quorum_test

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestWhatThreeIdleVotersCost is a measurement, not a check: set LEDGER_IDLE to a duration.
func TestWhatThreeIdleVotersCost(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("LEDGER_IDLE"))
	if err != nil {
		t.Skip("a measurement: LEDGER_IDLE=30s go test -run Idle -v")
	}
	realCluster(t, 3)
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	<-time.After(2 * time.Second)
	begin, cpu := time.Now(), used()
	<-time.After(d)
	t.Logf("three voters, idle: %.2f %% of a core together", 100*float64(used()-cpu)/float64(time.Since(begin)))
}
