//go:build !windows

package node_test

import (
	"testing"
	"time"
)

// BenchmarkIdle is three whole peers that have nothing to do, for b.N seconds: profile it to see
// what idleness costs.
func BenchmarkIdle(b *testing.B) {
	benchCluster(b, 3)
	<-time.After(3 * time.Second)
	b.ResetTimer()
	<-time.After(time.Duration(b.N) * time.Second)
}
