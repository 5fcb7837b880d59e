package node

import (
	"os"
	"slices"
	"sync"
	"testing"
)

// Each remembers of the other only where it was.
func TestTwoPeersThatBothComeBackElsewhereFindEachOther(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	before := [][]string{all[0].host.Addrs(), all[1].host.Addrs()}
	for _, l := range all {
		l.crash()
	}
	var both sync.WaitGroup
	for i, l := range all {
		if err := os.Remove(l.folder.path("port")); err != nil {
			t.Fatal(err)
		}
		both.Go(func() { all[i] = l.start(nil) })
	}
	both.Wait()
	for i, l := range all {
		l.sees("one", "two")
		if slices.Equal(l.host.Addrs(), before[i]) {
			t.Skip("a free port was the same twice")
		}
	}
	l := all[1]
	l.outcome(l.submit(noopJob("together", 4, 0)))
}
