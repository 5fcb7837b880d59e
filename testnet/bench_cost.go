package testnet

import (
	"context"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
)

const (
	idleSettle = 5 * time.Second  // after the start, before idleness is measured
	idleWindow = 10 * time.Second // over which processor time is taken
)

// idle: what a peer costs that has nothing to do.
func (b *bench) idle(ctx context.Context) error {
	if err := pause.For(ctx, idleSettle); err != nil {
		return err
	}
	before := make([]api.Stats, b.net.N())
	var memory, cpu float64
	for k := 1; k <= b.net.N(); k++ {
		st, err := b.net.Client(k).Stats(ctx)
		if err != nil {
			return err
		}
		before[k-1] = st
	}
	if err := pause.For(ctx, idleWindow); err != nil {
		return err
	}
	var worstMem, worstCPU float64
	for k := 1; k <= b.net.N(); k++ {
		st, err := b.net.Client(k).Stats(ctx)
		if err != nil {
			return err
		}
		m := float64(st.RSS) / (1 << 20)
		c := 100 * (st.CPU - before[k-1].CPU) / (st.Uptime - before[k-1].Uptime)
		memory, cpu = memory+m/float64(b.net.N()), cpu+c/float64(b.net.N())
		worstMem, worstCPU = max(worstMem, m), max(worstCPU, c)
	}
	b.add(Measure{Name: "resident memory of an idle peer", Value: memory, Max: worstMem, Unit: "MiB", N: b.net.N()})
	b.add(Measure{Name: "processor use of an idle peer", Value: cpu, Max: worstCPU, Unit: "% of a core", N: b.net.N()})
	return nil
}

// spread: how long after a worker wrote a task's end every one of ten peers shows it. The worker's
// clock is this machine's, in milliseconds.
func (b *bench) spread(ctx context.Context) error {
	tasks := 100
	if b.cfg.Quick {
		tasks = 20
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newWitness(b.net.N())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for k := 1; k <= b.net.N(); k++ {
		wg.Go(func() {
			_ = b.net.Client(k).Watch(ctx, "", w.saw) // ends with ctx
		})
	}
	if err := b.net.await(ctx, w.listening); err != nil {
		return err
	}
	for range tasks {
		if _, err := runJob(ctx, b.client, noopJob(1)); err != nil {
			return err
		}
	}
	if err := b.net.await(ctx, func() bool { return w.whole() >= tasks }); err != nil {
		return err
	}
	b.add(spreadOf("a status on all of ten peers", w.delays()))
	return nil
}

// witness gathers when each peer showed each task's end.
type witness struct {
	peers int

	mu    sync.Mutex
	heard int
	ends  map[string]*sighting
}

type sighting struct {
	written time.Time
	last    time.Time
	peers   int
}

func newWitness(peers int) *witness { return &witness{peers: peers, ends: map[string]*sighting{}} }

func (w *witness) saw(e api.Event) error {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Kind == "snapshot":
		w.heard++
	case e.Kind == "task" && e.State == "complete":
		s := w.ends[e.Task]
		if s == nil {
			s = &sighting{written: e.Time}
			w.ends[e.Task] = s
		}
		s.peers++
		s.last = now
	}
	return nil
}

func (w *witness) listening() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard >= w.peers
}

func (w *witness) whole() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.ends {
		if s.peers >= w.peers {
			n++
		}
	}
	return n
}

func (w *witness) delays() (out []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.ends {
		out = append(out, s.last.Sub(s.written))
	}
	return out
}
