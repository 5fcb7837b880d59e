package testnet_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/testnet/sim"
)

var (
	seeds     = flag.Int("seeds", 0, "how many lives the simulation lives; 0: 3, or 50 with -tags long")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first one")
	storyTo   = flag.String("story", "", "file that gets all that happens in the life of the first seed")
)

// TestSimulation lives through many lives of a cluster of ten and more peers, each of ten minutes
// and until all is at rest.
func TestSimulation(t *testing.T) {
	t.Parallel()
	n := *seeds
	if n <= 0 {
		n = 3
		if long.Tests {
			n = 50
		}
	}
	if *storyTo != "" {
		tellLife(t, *storyTo)
	}
	var sum sim.Stats
	var mu sync.Mutex
	begin := time.Now()
	each(n, *firstSeed, func(seed uint64) bool {
		r := sim.Run(sim.Config{Seed: seed})
		mu.Lock()
		defer mu.Unlock()
		sum.Add(r.Stats)
		if r.Violation != nil {
			t.Errorf("%s", report(sim.Config{Seed: seed}, r))
		}
		return !t.Failed()
	})
	t.Logf("%d lives in %v: %+v", n, time.Since(begin).Round(time.Second), sum)
}

func tellLife(t *testing.T, path string) {
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	defer out.Flush()
	sim.Run(sim.Config{Seed: *firstSeed, Trace: out})
}

// each calls f with one seed after the other, on all cores, until it returns false.
func each(n int, first uint64, f func(seed uint64) bool) {
	var next atomic.Uint64
	var over atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				k := next.Add(1) - 1
				if k >= uint64(n) || over.Load() {
					return
				}
				if !f(first + k) {
					over.Store(true)
				}
			}
		})
	}
	wg.Wait()
}

// report lives the life again, to tell what led to the violation.
func report(cfg sim.Config, r sim.Result) string {
	var out bytes.Buffer
	cfg.Trace = &out
	again := sim.Run(cfg)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	tail := strings.Join(lines[max(0, len(lines)-60):], "\n")
	same := ""
	if again.Hash != r.Hash {
		same = "\nTHE REPLAY WENT ANOTHER WAY: something in the cores depends on more than the seed"
	}
	return fmt.Sprintf("seed %d: %v\nreplay it with: go test ./testnet -run 'TestSimulation$' -seeds 1 -seed %d%s\n%s",
		cfg.Seed, r.Violation, cfg.Seed, same, tail)
}
