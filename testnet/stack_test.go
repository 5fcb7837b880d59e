package testnet_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/testnet/history"
	"github.com/coveyproject/covey/testnet/stack"
)

// TestSimulationOfWholeStacks lives through lives of a cluster of real peers in virtual time. Of
// the lives that -seeds asks for it lives one in ten: each of them is worth ten of the others in
// time, and in depth.
func TestSimulationOfWholeStacks(t *testing.T) {
	t.Parallel()
	n := (*seeds + 9) / 10
	if *seeds <= 0 {
		n = 1
		if long.Tests {
			n = 8
		}
	}
	var sum stack.Stats
	var mu sync.Mutex
	begin := time.Now()
	t.Run("lives", func(t *testing.T) {
		for k := range n {
			seed := *firstSeed + uint64(k)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				cfg := stack.Config{Seed: seed}
				if *storyTo != "" && k == 0 {
					defer tellStack(t, *storyTo, &cfg)()
				}
				r := liveStack(t, cfg)
				mu.Lock()
				defer mu.Unlock()
				addStats(&sum, r.Stats)
				if r.Violation != nil {
					t.Errorf("seed %d: %v\nlive it again, with the same faults, with: go test ./testnet -run 'TestSimulationOfWholeStacks$' -seeds 1 -seed %d", seed, r.Violation, seed)
				}
			})
		}
	})
	t.Logf("%d lives in %v: %+v", n, time.Since(begin).Round(time.Second), sum)
}

// tellStack writes the whole story of a life, with what the peers log.
func tellStack(t *testing.T, path string, cfg *stack.Config) func() {
	f, err := os.Create(path + ".stack")
	if err != nil {
		t.Fatal(err)
	}
	out := &locked{w: bufio.NewWriter(f)}
	cfg.Story = out
	cfg.Log = slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})
	return func() {
		out.w.Flush()
		f.Close()
	}
}

// locked is a writer for many.
type locked struct {
	mu sync.Mutex
	w  *bufio.Writer
}

// Write writes.
func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

var _ io.Writer = (*locked)(nil)

// liveStack lives one life in a bubble, and judges what its clients were told.
func liveStack(t *testing.T, cfg stack.Config) stack.Result {
	r := inBubble(t, cfg, stack.Run)
	if r.Violation == nil {
		if b := history.Check(r.Ops); b != nil {
			r.Violation = &stack.Violation{Rule: "clients", What: b.Error()}
		}
	}
	return r
}

// inBubble lives a life, with a folder and a clock of its own. One that hangs says its seed when a
// tenth is left of the time that all tests have.
func inBubble(t *testing.T, cfg stack.Config, live func(stack.Config) stack.Result) (r stack.Result) {
	dir, err := os.MkdirTemp(memory(), "covey-stack")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg.Dir, cfg.Settle = dir, synctest.Wait
	if end, ok := t.Deadline(); ok {
		guard := time.AfterFunc(time.Until(end)/10*9, func() {
			buf := make([]byte, 8<<20)
			fmt.Fprintf(os.Stderr, "%s", buf[:runtime.Stack(buf, true)])
			panic(fmt.Sprintf("the life of seed %d hangs", cfg.Seed))
		})
		defer guard.Stop()
	}
	defer func() {
		if p := recover(); p != nil { // a goroutine that is left over, most likely
			panic(fmt.Sprintf("seed %d: %v (%v)", cfg.Seed, p, r.Violation))
		}
	}()
	synctest.Test(t, func(*testing.T) { r = live(cfg) })
	return r
}

// memory is a folder in memory, if there is one: a sync costs nothing there. "" is the default.
func memory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

// addStats sums two lives.
func addStats(sum *stack.Stats, o stack.Stats) {
	sum.Lives += o.Lives
	sum.Peers += o.Peers
	sum.Faults += o.Faults
	sum.Boots += o.Boots
	sum.Wipes += o.Wipes
	sum.Jobs += o.Jobs
	sum.Acked += o.Acked
	sum.Held += o.Held
	sum.Cancelled += o.Cancelled
	sum.Started += o.Started
	sum.Again += o.Again
	sum.Events += o.Events
	sum.Reads += o.Reads
	sum.Waits += o.Waits
	sum.Clones += o.Clones
	sum.Damages += o.Damages
	sum.Liars += o.Liars
	sum.Pretenders += o.Pretenders
	sum.Crooks += o.Crooks
	sum.Lies += o.Lies
	sum.Withheld += o.Withheld
	sum.Heals += o.Heals
	sum.Saved += o.Saved
	sum.Copies += o.Copies
	sum.Slowest = max(sum.Slowest, o.Slowest)
}
